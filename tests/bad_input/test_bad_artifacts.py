"""An artifacts folder that is damaged, half gone, hostile or no folder: code 5 and the way back, never an inside view.

Whatever was done to it, `build` makes it whole again and `inspect verify` tells what is wrong before.
"""

import json
import os
import pickle
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from bad_input.speech import said, said_in_json
from samples import Program

from retrieve_cli.storage.manifest import sha1, sha1_file

TABLES = ("records.jsonl", "chunks.jsonl")
FILES = (*TABLES, "offsets.pkl", "dense.faiss", "bm25.pkl")
LOOKS = (["query", "lungs"], ["query", "lungs", "--json"], ["query", "lungs", "--chunks", "-l"], ["inspect", "status"],
         ["inspect", "records"], ["inspect", "record", "lungs"], ["inspect", "chunk", "lungs#0"])  # fmt: skip


def live(artifacts: Path) -> Path:
    return artifacts / "generations" / (artifacts / "current").read_text().strip()


def replaced(folder: Path, name: str, content: bytes) -> None:
    """Puts another file in place: the old one may still be mapped by this process."""
    (folder / name).unlink(missing_ok=True)
    (folder / name).write_bytes(content)


def signed(artifacts: Path, change: Callable[[Path, dict], None]) -> None:
    """Alters the live generation and makes its manifest agree, as somebody would who means harm."""
    folder = live(artifacts)
    value = json.loads((folder / "manifest.json").read_text())
    change(folder, value)
    for name in set(value["files"]) & {*FILES, "columns.pkl"}:
        rows = value["files"][name].get("rows")
        value["files"][name] = {"sha1": sha1_file(folder / name), "bytes": (folder / name).stat().st_size, "rows": rows}
    parts = ("recipe", "sources", "files", "segments", "own_sources", "schema_version")
    identity = {key: value[key] for key in parts if key in value}
    value["generation"] = sha1(identity)[:12]
    (folder / "manifest.json").write_text(json.dumps(value))
    folder.rename(folder.with_name(value["generation"]))
    (artifacts / "current").write_text(value["generation"] + "\n")


def framed(value: object) -> bytes:
    """A pickle with the footer of an artifact."""
    stream = pickle.dumps(value, protocol=5)
    return stream + struct.pack("<Q8s", 0, b"RTRVPKL2")


class Hostile:
    """Runs a command in whoever unpickles it."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch canary",)


def made_whole(catalog: Path, retrieve: Program) -> bool:
    built = retrieve("build", "--catalog", catalog)
    assert built.code == 0, built
    return retrieve("query", "lungs").code == retrieve("inspect", "verify").code == 0


INSTEAD: dict[str, Callable[[Path, bytes], object]] = {
    "absent": lambda path, content: None,
    "cut": lambda path, content: path.write_bytes(content[:-7]),
    "empty": lambda path, content: path.touch(),
    "a_folder": lambda path, content: path.mkdir(),
    "a_loop": lambda path, content: path.symlink_to(path.name),
}
"""By name: makes something in the place of a file that was removed, from the content that it had."""


@pytest.mark.parametrize("harm", INSTEAD)
@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
def test_a_file_that_is_gone_or_cut_is_named_by_every_command(
    index: Path, catalog: Path, retrieve: Program, name: str, harm: str
) -> None:
    path = live(index) / name
    content = path.read_bytes()
    path.unlink()
    INSTEAD[harm](path, content)
    for words in LOOKS:
        if "--json" in words:
            assert said_in_json(retrieve(*words), 5)["kind"] == "index_corrupt"
        else:
            assert name in said(retrieve(*words), 5)
    verified = retrieve("inspect", "verify")
    assert (verified.code, name in verified.out + verified.err) == (5, True)
    assert made_whole(catalog, retrieve)


def test_postings_that_point_anywhere_are_an_error_of_the_index(index: Path, retrieve: Program) -> None:
    from retrieve_cli.storage import pickles

    def point_anywhere(folder: Path, _: dict) -> None:
        stored = pickles.load(folder / "bm25.pkl")
        stored["rows"] = stored["rows"] + 10**9
        pickles.dump(stored, folder / "new")
        (folder / "new").replace(folder / "bm25.pkl")

    signed(index, point_anywhere)
    assert "bm25.pkl refers to a missing row" in said(retrieve("query", "lungs"), 5)


@pytest.mark.parametrize("column", ["records", "chunks", "starts", "id_ends", "ids"])
def test_offsets_that_point_anywhere_and_ids_that_are_no_text_are_refused(
    index: Path, retrieve: Program, column: str
) -> None:
    import numpy as np

    from retrieve_cli.storage import pickles

    def change(folder: Path, _: dict) -> None:
        offsets = {key: np.array(part) for key, part in pickles.load(folder / "offsets.pkl").items()}
        offsets[column][1] = 0xF3 if column == "ids" else 10**6
        (folder / "offsets.pkl").unlink()
        pickles.dump(offsets, folder / "offsets.pkl")

    signed(index, change)
    said(retrieve("query", "lungs"), 5)


@pytest.mark.parametrize("name", ["bm25.pkl", "offsets.pkl"])
@pytest.mark.parametrize("form", ["bare", "framed", "in an array", "signed"])
def test_a_hostile_pickle_is_refused_and_not_run(index: Path, catalog: Path, retrieve: Program, name, form) -> None:
    content = {"bare": pickle.dumps(Hostile()), "in an array": framed({"starts": [Hostile()]})}.get(
        form, framed(Hostile())
    )
    if form == "signed":
        signed(index, lambda folder, _: replaced(folder, name, content))
    else:
        replaced(live(index), name, content)
    for words in (["query", "lungs"], ["inspect", "chunk", "lungs#0"]):
        assert name in said(retrieve(*words), 5)
    assert retrieve("inspect", "verify").code == 5
    assert made_whole(catalog, retrieve)
    assert not Path("canary").exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"nothing\n", b"../../x\n", b".\n", b"..\n", b"\xff\xfe\n", b"a\0b\n", b"x" * 5000, b"a\nb\n", b"~\n"],
    ids=lambda content: repr(content[:12]),
)
def test_a_current_that_names_nothing_is_said_and_mended_by_a_build(
    index: Path, catalog: Path, retrieve: Program, content: bytes
) -> None:
    (index / "current").write_bytes(content)
    for words in (["query", "lungs"], ["inspect", "status"], ["inspect", "verify"]):
        said(retrieve(*words), 5)
    assert made_whole(catalog, retrieve)


def a_file_instead(artifacts: Path) -> None:
    folder = live(artifacts)
    shutil.rmtree(folder)
    folder.write_text("x")


HALVES: dict[str, Callable[[Path], object]] = {
    "gone": lambda artifacts: shutil.rmtree(live(artifacts)),
    "all_gone": lambda artifacts: shutil.rmtree(artifacts / "generations"),
    "a_file_instead": a_file_instead,
    "no_current": lambda artifacts: (artifacts / "current").unlink(),
}


@pytest.mark.parametrize("harm", HALVES)
def test_a_half_deleted_index_is_said_and_mended_by_a_build(
    index: Path, catalog: Path, retrieve: Program, harm: str
) -> None:
    HALVES[harm](index)
    for words in (["query", "lungs"], ["inspect", "status"], ["inspect", "verify"]):
        assert "retrieve build" in said(retrieve(*words), 5)
    assert made_whole(catalog, retrieve)
