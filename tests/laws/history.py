"""A history: an index of sources that change, published again and again, held to the laws of segments.

L1: it answers as an index that is built of the same sources. L2: after a compaction it has the same files and the same
id. L3: files of published generations never change. docs/artifacts.md has the form of the files.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from laws.answers import answers, differences
from laws.world import EDITS, World
from profiles import SEED
from samples import Program

from retrieve_cli.storage.manifest import sha1_file

Steps = Sequence[tuple[str, int]]
PUBLICATIONS = ["sync", "sync", "sync", "compact", "rollback"]
"""Kinds of steps that change the index; some are more frequent than others."""
AT_ONCE = {"put", "drop", "touch"}
"""Kinds of edits that change nothing, or are published without a sync if nothing else has changed."""
SINCE_BUILT = {"freshness", "notices", "warnings", "why"}
"""Keys of an answer that tell of sources that changed since."""


def drawn(seed: int, publications: Sequence[str] = PUBLICATIONS) -> Steps:
    """Return a history of 12 to 40 steps, the same for the same seed."""
    draw = random.Random(f"history {SEED} {seed}")
    kinds = draw.choices([*EDITS, *publications * 2], k=draw.randint(12, 40))
    return [(kind, draw.randrange(1000)) for kind in kinds]


class History:
    """A world, its index, the answers that each published generation gave, and the files of all."""

    def __init__(self, retrieve: Program, folder: Path, modes: Sequence[str], **config: Any) -> None:
        self.world = World(folder, **config)
        self.artifacts = folder / "artifacts"
        self._modes = modes
        self._retrieve = retrieve
        self._published: dict[str, Any] = {}
        self._files: dict[Path, str] = {}
        self.run("build")

    def follow(self, steps: Steps) -> None:
        """Take the steps, and check the index after each publication and at the end."""
        up_to_date = True
        for kind, number in [*steps, ("sync", 0)]:
            if kind in EDITS:
                self.world.take(kind, number)
                up_to_date = up_to_date and kind in AT_ONCE
                if up_to_date:
                    self.equals_a_fresh_build()
            elif kind == "rollback":
                up_to_date = False
                self._roll_back()
            elif kind == "compact":
                self.run("sync --compact")
                self.equals_a_fresh_build(files=True)
            else:
                self.run("sync")
                self.equals_a_fresh_build()
            up_to_date = up_to_date or kind in ("sync", "compact")
            self._no_file_changed()

    def equals_a_fresh_build(self, *, files: bool = False) -> None:
        """Compare all answers, or files as well, with those of an index that is built in another folder."""
        fresh = self.world.folder / "fresh"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        for path in self.artifacts.glob("inbox*"):
            (shutil.copytree if path.is_dir() else shutil.copy)(path, fresh / path.name)
        self.run("build", fresh)
        with self.world.open("fresh") as index:
            wanted = answers(index, self._modes)
        agree(self._answers(), wanted)
        if files:
            mine, theirs = contents(self.artifacts), contents(fresh)
            assert {name for name in mine | theirs if mine.get(name) != theirs.get(name)} == set(), (mine, theirs)

    def run(self, command: str, artifacts: Path | None = None) -> None:
        """Run a command of the program, which ends well; records may be rejected."""
        where = ("--artifacts", artifacts or self.artifacts, "--config", self.world.folder / "config.yaml")
        done = self._retrieve(*command.split(), *where)
        assert done.code in (0, 8), (command, done.code, done.err)

    def _answers(self) -> dict[str, Any]:
        with self.world.open() as index:
            found = answers(index, self._modes)
            self._published[index.generation] = found
        return found

    def _roll_back(self) -> None:
        where = ("--artifacts", self.artifacts, "--config", self.world.folder / "config.yaml")
        done = self._retrieve("sync", "--rollback", *where)
        if done.code:
            assert "there is no older generation" in done.err
            return
        before = dict(self._published)
        found = self._answers()
        agree(found, before.get(live(self.artifacts), found), but=SINCE_BUILT)

    def _no_file_changed(self) -> None:
        """Check that each file of a published generation that is still there is as it was, but for its manifest."""
        paths = [path for path in (self.artifacts / "generations").glob("*/*") if path.suffix != ".json"]
        now = {path: sha1_file(path) for path in paths}
        changed = [str(path) for path, sha1 in self._files.items() if now.get(path, sha1) != sha1]
        assert not changed, changed
        self._files = now


def live(artifacts: Path) -> str:
    """Return the id that `current` names."""
    return (artifacts / "current").read_text().strip()


def contents(artifacts: Path) -> dict[str, str]:
    """Return the SHA-1 of the current generation's files, but of the manifest, which says when it was built; and its
    id."""
    folder = artifacts / "generations" / live(artifacts)
    files = {path.name: sha1_file(path) for path in folder.iterdir() if path.name != "manifest.json"}
    return {"id": live(artifacts), **files}


def agree(found: Any, wanted: Any, *, but: Collection[str] = ()) -> None:
    """Fail with the first differences of answers."""
    unequal = [line for key in wanted for line in differences(found.get(key), wanted[key], key, but=but)]
    assert not unequal, "\n".join(unequal[:20])
