"""A catalog as nobody should write it: each bad line is refused by file and line, and the rest is built."""

import gzip
import json
from pathlib import Path

import pytest
from bad_input.speech import GOOD, catalog_of, refused, said
from samples import Program

SOUND = b"".join(json.dumps(record).encode() + b"\n" for record in GOOD)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"id": "x", broken', "not JSON"),
        (b'{"id": "x", "name": "X", "description": "cut', "not JSON"),
        (b'{"id": "good1", "name": "Again", "description": "twice"}', "first used by"),
        (b'{"id": "x", "name": "", "description": ""}', "no text"),
        (b'{"id": "x"}', "no text"),
        (b"{}", "no text"),
        (b'{"id": "x", "name": "!!!", "description": "..."}', "no text"),
        (b'{"id": "x", "name": "raw\0nul", "description": "a\0b"}', "not JSON"),
        (b'{"id": "x", "name": "caf\xe9", "description": "latin-1"}', "not UTF-8"),
        (b'{"id": "x", "name": "lone \\ud800 surrogate", "description": "a"}', "not JSON"),
        (b'{"id": "x", "name": "X", "description": "nan", "score": NaN}', "not JSON"),
        (b'{"id": "x", "name": "X", "description": "infinite", "score": 1e999}', "not JSON"),
        (b'{"id": "x", "name": "X", "description": "deep", "m": ' + b"[" * 5000 + b"]" * 5000 + b"}", "not JSON"),
        (b"[1]", "not an object"),
        (b'"text"', "not an object"),
        (b"null", "not an object"),
        (b"12", "not an object"),
    ],
)
def test_a_bad_line_is_refused_by_its_number_and_the_rest_is_built(
    tmp_path: Path, retrieve: Program, line: bytes, reason: str
) -> None:
    done = retrieve("build", "--catalog", catalog_of(tmp_path / "tools.jsonl", line))
    (piece,) = refused(done)
    assert (piece["source"], piece["line"]) == ("tools.jsonl", len(GOOD) + 1)
    assert reason in piece["reason"]
    assert f"tools.jsonl:{len(GOOD) + 1}" in done.err
    assert len(retrieve("query", "lungs", "-k", 50, "-l").out.splitlines()) == len(GOOD)


@pytest.mark.parametrize(
    "content",
    [SOUND.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + SOUND, SOUND.rstrip(b"\n"), SOUND.replace(b"\n", b"\n\n \n")],
    ids=["crlf", "byte order mark", "no last line end", "blank lines"],
)
def test_line_ends_and_a_byte_order_mark_make_no_difference(tmp_path: Path, retrieve: Program, content: bytes) -> None:
    catalog = tmp_path / "tools.jsonl"
    catalog.write_bytes(content)
    assert retrieve("build", "--catalog", catalog).code == 0
    assert retrieve("inspect", "status", "--json").json["records"] == len(GOOD)
    assert retrieve("inspect", "record", GOOD[0]["id"]).code == 0


@pytest.mark.parametrize("content", [b'{}\n{"id": 1}\nxx\n', SOUND.replace(b"\n", b"\r")], ids=["bad lines", "cr"])
def test_a_catalog_of_which_everything_is_refused_leaves_the_former_index(
    index: Path, tmp_path: Path, retrieve: Program, content: bytes
) -> None:
    (tmp_path / "bad.jsonl").write_bytes(content)
    before = retrieve("query", "lungs", "--format", "trec").out
    done = retrieve("build", "--catalog", tmp_path / "bad.jsonl")
    assert done.code == 8
    assert "nothing published" in done.out + done.err
    assert "quarantine.jsonl" in done.err
    assert retrieve("query", "lungs", "--format", "trec").out == before


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(SOUND, mtime=0)[:-9],
        gzip.compress(b"PK\x03\x04" + bytes(range(256)) * 20, mtime=0),
        SOUND.decode().encode("utf-16"),
        b"PK\x03\x04" + bytes(range(256)) * 20,
        b"\x7fELF" + bytes(range(256)) * 20,
        b'[{"id": "a", "name": "x"}',
        b'[{"id": "a", "name": "x"}] ]',
    ],
    ids=["cut gzip", "packed zip", "utf-16", "zip", "binary", "cut array", "array and more"],
)
def test_a_file_that_is_no_catalog_at_all_is_a_usage_error(tmp_path: Path, retrieve: Program, content: bytes) -> None:
    """Contract, code 2: a file that is not what the command takes."""
    (tmp_path / "tools.jsonl").write_bytes(content)
    said(retrieve("build", "--catalog", tmp_path / "tools.jsonl"), 2)
