"""`retrieve query --server URL`: the answer of a server, printed as an own one."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from raw_servers import serving
from samples import TOOLS, write_catalog
from servers import Server, started
from warm_samples import Ended, ask, command


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("served")
    write_catalog(place / "tools.jsonl", TOOLS)
    assert command("build", "--catalog", "tools.jsonl", folder=place, RETRIEVE_ENCODER__KIND="hashed").code == 0
    return place


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with started(folder / "artifacts", cwd=folder, RETRIEVE_ENCODER__KIND="hashed") as running:
        yield running


def both(server: Server, folder: Path, *words: str) -> tuple[Ended, Ended]:
    """The command answered by the server, from a folder without an index; and by itself."""
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    there = ask("query", *words, "--server", server.url, warm=False, folder=elsewhere)
    return there, ask("query", *words, warm=False, folder=folder)


@pytest.mark.parametrize("form", ["text", "csv", "md", "trec", "jsonl"])
def test_a_server_answers_in_the_format_that_is_wanted(server: Server, folder: Path, form: str) -> None:
    there, here = both(server, folder, "brain", "--format", form, "-k", "2", "--color", "always")
    assert there == here


def test_json_is_the_answer_as_it_is(server: Server, folder: Path) -> None:
    there, here = both(server, folder, "cells", "--json", "--no-timing", "--mode", "bm25", "--filter", "license=MIT")
    assert there == here


@pytest.mark.parametrize(
    "words", [["brain", "--filter", "licence=MIT"], ["brain", "--filter", "licence=MIT", "--json"]]
)
def test_an_error_of_the_server_is_an_error_of_the_command(server: Server, folder: Path, words: list[str]) -> None:
    there, here = both(server, folder, *words, "--filter", "licence=MIT")
    assert there == here
    assert here.code == 2


def test_a_flag_about_this_machine_is_refused(server: Server, folder: Path) -> None:
    there, _ = both(server, folder, "brain", "--save-run")
    assert (there.code, b"--save-run does not go with --server URL" in there.err) == (2, True)


@pytest.mark.parametrize(("url", "code"), [("http://127.0.0.1:9", 6), ("nonsense", 2)])
def test_no_server_there_is_said(folder: Path, url: str, code: int) -> None:
    done = ask("query", "brain", "--server", url, "--json", warm=False, folder=folder)
    assert (done.code, done.out) == (code, b"")
    assert json.loads(done.err)["error"]["code"] == code


def test_the_key_that_the_server_wants_comes_from_the_environment(folder: Path) -> None:
    env = {"RETRIEVE_ENCODER__KIND": "hashed", "SERVER_KEY": "x" * 32}
    with started(folder / "artifacts", "--api-key-env", "SERVER_KEY", cwd=folder, **env) as server:
        words = ("query", "brain", "-l", "--format", "csv", "--server", server.url)
        assert ask(*words[:2], *words[3:], warm=False, folder=folder).code == 2
        named = {"RETRIEVE_QUERY__API_KEY_ENV": "SERVER_KEY", "SERVER_KEY": "x" * 32}
        assert ask(*words[:2], *words[3:], warm=False, folder=folder, env=named).code == 0


NONSENSE = (
    b"",
    b"[" * 100_000,
    b"null",
    b'{"error": []}',
    b'{"error": {"code": 1e300, "kind": [], "message": {}, "hint": 1}}',
)
NONSENSE += (b'"\xff"', b"NaN", b"[1e400]", "\x1b[2J\x9b\u202e\u200b\U000e0041".encode())
NONSENSE += (b'{"error": {"code": {}, "kind": "a", "message": "\xc2\x9b\\u001b[2J\xe2\x80\xae", "hint": "c"}}',)


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("form", ["text", "json"])
def test_nonsense_of_a_server_is_an_error_or_text_that_controls_nothing(folder: Path, status: int, form: str) -> None:
    bodies = iter(NONSENSE)
    with serving(lambda talk: talk.answer(next(bodies), status=status)) as other:
        for _ in NONSENSE:
            done = ask("query", "brain", "--server", other.url, "--format", form, warm=False, folder=folder)
            assert b"bug in retrieve" not in done.err
            assert (done.code == 0) == ((status, form) == (200, "text"))
            printed = (done.out + done.err).decode()
            assert all(char == "\n" or char.isprintable() for char in printed)


@pytest.mark.parametrize("cell", ["=HYPERLINK(1)", "+1+1", "-2+3", "@SUM(1)", '"=a,b"', "x\r\n=1"])
def test_no_cell_of_a_server_is_a_formula(folder: Path, cell: str) -> None:
    """Found by `make fuzz`: CSV of a server was printed as it came."""
    with serving(lambda talk: talk.answer(f"rank,score\r\n1,-0.25\r\n2,{cell}\r\n".encode(), status=200)) as other:
        done = ask("query", "brain", "--format", "csv", "--server", other.url, warm=False, folder=folder)
    rows = list(csv.reader(done.out.decode().splitlines(keepends=True)))
    assert rows[:2] == [["rank", "score"], ["1", "-0.25"]]
    assert not any(text.startswith(("=", "+", "@")) or text == "-2+3" for row in rows for text in row)
