"""Sources that change step by step: a catalog, a folder of Markdown, and documents that are added one at a time.

A step is a kind and a number; the number decides what is edited and how, so that a list of steps is a whole history.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import yaml

import retrieve_cli

Row = dict[str, Any]

WORDS = (
    "lung lungs lobe brain heart cell cells scan volume align register stitch tile mosaic segment segmentation count "
    "microscopy image slice mask the of and über Größe naïve 画像 light-sheet IL-6 magnetic resonance imaging MRI rare"
).split()
GERMAN = "Der Zug fährt heute nach Passau, und die Reise dauert nicht länger als eine Stunde mit dem Bus."
LICENSES = ["MIT", "mit", "GPL-3.0", "Apache-2.0", None]
SIZES = [1, 2, 2.0, "3", 12, "12 MB", None, [4, 9]]
DATES = ["2023-05-02", "2024", "2024-01", "2024-01-31", None]
IDS = [f"t{number}" for number in range(24)]
DOCUMENTS = ["a.md", "b.md", "sub/c.md", "sub/d.txt", "deep/er/e.md", "t3"]
"""Paths of documents; the last one may be the id of a record, too, but has no format."""

CONFIG: Row = {
    "sources": [{"kind": "catalog", "path": "tools.jsonl"}, {"kind": "docs", "path": "docs"}],
    "encoder": {"kind": "hashed", "dim": 64},
    "chunking": {"size": 24},
    "graph": {"entities": ["domain", "topics"]},
    "build": {"max_fail": 1.0},
    "sync": {"max_shrink": 1.0},
}


class World:
    """The sources in a folder, and what may happen to them."""

    def __init__(self, folder: Path, seed: int = 0, **config: Any) -> None:
        """Write sources of some thirty records, and a configuration."""
        self.folder = folder
        self.catalog, self.docs = folder / "tools.jsonl", folder / "docs"
        self.lines: list[str] = []
        self.texts: dict[str, str] = {}
        shutil.rmtree(folder, ignore_errors=True)
        self.docs.mkdir(parents=True)
        (folder / "config.yaml").write_text(yaml.safe_dump({**CONFIG, **config}))
        draw = random.Random(f"world {seed}")
        self.lines = [json.dumps(self._record(draw, name)) for name in IDS[:16]]
        self.texts = {name: self._document(draw) for name in DOCUMENTS[:4]}
        self.lines.append(json.dumps({"id": "always", "name": "Always there", "description": "lung volume"}))
        self.write()

    def write(self) -> None:
        """Write all sources; a document's time follows from its text, for it is a part of the record."""
        self.catalog.write_text("".join(f"{line}\n" for line in self.lines), "utf-8")
        shutil.rmtree(self.docs)
        for name, text in self.texts.items():
            path = self.docs / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
            os.utime(path, (1e9, 1e9 + crc32(text.encode()) % 10**6))
        self.docs.mkdir(exist_ok=True)

    # ------------------------------------------------------------------------------------------- contents

    def _text(self, draw: random.Random, most: int = 40) -> str:
        if draw.random() < 0.1:
            return GERMAN
        skewed = [WORDS[int(len(WORDS) * draw.random() ** 1.7)] for _ in range(draw.randint(1, most))]
        return " ".join(skewed)

    def _record(self, draw: random.Random, name: str) -> Row:
        row: Row = {"id": name, "name": f"Tool {self._text(draw, 3)}", "description": self._text(draw)}
        fields: dict[str, Callable[[], Any]] = {
            "license": lambda: draw.choice(LICENSES),
            "size": lambda: draw.choice(SIZES),
            "released": lambda: draw.choice(DATES),
            "group": lambda: draw.choice(["radiology", "microscopy", "one"]),
            "keywords": lambda: draw.sample(WORDS, 2),
            "tenant": lambda: draw.choice(["acme", "beta", ["acme", "beta"]]),
            "requires_tool": lambda: draw.sample([*IDS, "Always there", "nowhere"], 2),
            "compatible_with": lambda: draw.choice(IDS),
            "domain": lambda: draw.choice(["neuro", "Neuro", "cardio"]),
            "topics": lambda: draw.sample(["io", "IO", "vision", "stats"], 2),
            f"field{draw.randint(0, 5)}": lambda: draw.choice(["x", "Y", 3]),
        }
        return row | {key: make() for key, make in fields.items() if draw.random() < 0.5}

    def _document(self, draw: random.Random) -> str:
        head = f"---\ntitle: {self._text(draw, 3)}\ntenant: acme\n---\n" if draw.random() < 0.4 else ""
        sections = (f"# {draw.choice(['Intro', 'Methods', 'Results'])}\n{self._text(draw)}" for _ in range(2))
        return head + "\n\n".join([*sections, f"See [[{draw.choice(DOCUMENTS)}]]."])

    # ---------------------------------------------------------------------------------------------- steps

    def _place(self, draw: random.Random) -> int:
        """A line of the catalog but the last, which stays."""
        return draw.randrange(max(1, len(self.lines) - 1))

    def add(self, draw: random.Random) -> None:
        """A record, whose id may be there already."""
        self.lines.insert(self._place(draw), json.dumps(self._record(draw, draw.choice(IDS))))

    def edit(self, draw: random.Random) -> None:
        """Another record of the same id."""
        place = self._place(draw)
        name = str(json.loads(self.lines[place]).get("id", "t0")) if self.lines[place].endswith("}") else "t0"
        self.lines[place] = json.dumps(self._record(draw, name))

    def edit_a_value(self, draw: random.Random) -> None:
        """One field of a record, its text unchanged."""
        place = self._place(draw)
        if self.lines[place].endswith("}"):
            row = json.loads(self.lines[place])
            self.lines[place] = json.dumps(row | {"license": draw.choice(LICENSES), "size": draw.choice(SIZES)})

    def rename(self, draw: random.Random) -> None:
        """Another id of the same record."""
        place = self._place(draw)
        if self.lines[place].endswith("}"):
            self.lines[place] = json.dumps(json.loads(self.lines[place]) | {"id": draw.choice(IDS)})

    def remove(self, draw: random.Random) -> None:
        if len(self.lines) > 4:
            del self.lines[self._place(draw)]

    def remove_many(self, draw: random.Random) -> None:
        keep = max(3, len(self.lines) // 2)
        self.lines = [*draw.sample(self.lines[:-1], keep - 1), self.lines[-1]]

    def duplicate(self, draw: random.Random) -> None:
        self.lines.insert(self._place(draw), self.lines[self._place(draw)])

    def damage(self, draw: random.Random) -> None:
        self.lines.insert(self._place(draw), "{broken")

    def heal(self, draw: random.Random) -> None:
        self.lines = [line for line in self.lines if line.endswith("}")]

    def blank(self, draw: random.Random) -> None:
        self.lines.insert(self._place(draw), "")

    def move(self, draw: random.Random) -> None:
        self.lines[:-1] = draw.sample(self.lines[:-1], len(self.lines) - 1)

    def reformat(self, draw: random.Random) -> None:
        """The same record in other characters."""
        place = self._place(draw)
        self.lines[place] = self.lines[place].replace('": ', '" :  ')

    def touch(self, draw: random.Random) -> None:
        """Nothing but other times."""

    def write_document(self, draw: random.Random) -> None:
        self.texts[draw.choice(DOCUMENTS)] = self._document(draw)

    def remove_document(self, draw: random.Random) -> None:
        self.texts.pop(draw.choice(DOCUMENTS), None)

    def rename_document(self, draw: random.Random) -> None:
        first, second = draw.sample(DOCUMENTS, 2)
        if first in self.texts:
            self.texts[second] = self.texts.pop(first)

    def put(self, draw: random.Random) -> None:
        """A document that is added alone; its id may be that of a record of the catalog."""
        records = [self._record(draw, draw.choice([*IDS, "d1", "d2", "d3"])) for _ in range(draw.randint(1, 2))]
        with warnings.catch_warnings(action="ignore"), self.open() as index:
            index.add(records)

    def drop(self, draw: random.Random) -> None:
        """A document that was added alone."""
        from retrieve_cli.errors import RetrieveError

        with self.open() as index:
            try:
                index.delete(draw.choice([*IDS[:4], "d1", "d2", "d3"]))
            except RetrieveError:
                return

    def open(self, artifacts: str = "artifacts") -> Any:
        return retrieve_cli.open(self.folder / artifacts, config=self.folder / "config.yaml")

    def take(self, kind: str, number: int) -> None:
        """Take one step."""
        getattr(self, kind)(random.Random(f"{kind} {number}"))
        self.write()


EDITS = (
    "add add edit edit edit edit_a_value rename remove remove_many duplicate damage heal blank move reformat touch "
    "write_document write_document remove_document rename_document put put drop"
).split()
"""Kinds of steps that change a source; some are more frequent than others."""
