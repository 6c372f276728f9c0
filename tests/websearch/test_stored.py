"""Stored answers: complete or absent, whatever happens to the process, the disk or the files."""

import hashlib
import json
import os
import resource
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from waiting import pause, until

from retrieve_cli.contracts.websearch import Response
from retrieve_cli.websearch.stored import MOST_BYTES, Stored, digest_of, request_key

AT = "2026-11-23T04:00:00Z"
REQUEST = {"method": "GET", "url": "https://a.example/x", "parameters": {"q": "µ"}, "headers": {}, "body": None}
HOUR = 3600.0


def response(body: bytes = b'{"a": 1}', at: str = AT) -> Response:
    return Response(200, "application/json", body, at, hashlib.sha256(body).hexdigest())


def request(number: int = 0) -> dict[str, object]:
    return {**REQUEST, "body": str(number)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "artifacts" / "web"


@pytest.fixture
def stored(folder: Path) -> Stored:
    return Stored(folder, keep_s=30 * 24 * HOUR, keep_mb=1)


def put(stored: Stored, number: int = 0, body: bytes = b'{"a": 1}') -> str:
    key = request_key(request(number))
    stored.put(key, request(number), response(body))
    return key


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "tidied")


# ------------------------------------------------------------------------------------------- reading


def test_the_folder_has_the_documented_layout(stored: Stored, folder: Path) -> None:
    key, digest = put(stored), response().digest
    assert files(folder) == [folder / "answers" / key[:2] / f"{key}.json", folder / "bodies" / digest[:2] / digest]
    answer = json.loads(files(folder)[0].read_text())
    described = {"at": AT, "status": 200, "content_type": "application/json", "digest": digest}
    assert answer == {"request": request(), **described}


def test_a_request_has_its_latest_answer_in_later_processes_too_or_none(stored: Stored, folder: Path) -> None:
    assert stored.get(request_key(REQUEST)) is None
    put(stored)
    key = put(stored, body=b"[2]")
    assert stored.get(key) == Stored(folder, keep_s=1, keep_mb=1).get(key) == response(b"[2]")


def test_equal_bodies_are_stored_once(stored: Stored, folder: Path) -> None:
    assert stored.get(put(stored, 1)) == stored.get(put(stored, 2))
    assert len(files(folder / "bodies")) == 1


json_values = st.recursive(st.none() | st.text() | st.integers(), lambda inner: st.dictionaries(st.text(), inner))


@given(body=st.binary(max_size=200), value=json_values)
def test_any_body_and_request_survive(tmp_path_factory: pytest.TempPathFactory, body: bytes, value: object) -> None:
    stored = Stored(tmp_path_factory.mktemp("web"), keep_s=1, keep_mb=1)
    stored.put(request_key(value), value, response(body))
    assert stored.get(request_key(value)) == response(body)


def test_a_key_depends_on_every_part_of_a_request_and_on_no_order() -> None:
    others = [{**REQUEST, name: "other"} for name in REQUEST]
    assert len({request_key(one) for one in (REQUEST, *others)}) == 1 + len(REQUEST)
    assert request_key(dict(reversed(REQUEST.items()))) == request_key(REQUEST)


# ------------------------------------------------------------------------------------------- damage


@pytest.mark.parametrize("damage", [b"", b"x", b'{"a": 2}', b'{"a": 1} ', b"\0" * 8])
def test_a_damaged_body_is_absent_and_removed(stored: Stored, folder: Path, damage: bytes) -> None:
    key = put(stored)
    files(folder)[1].write_bytes(damage)
    assert stored.get(key) is None
    assert files(folder) == []
    put(stored)
    assert stored.get(key) == response()


WRONG: dict[str, list[object]] = {
    "at": ["yesterday", "2026-99-99T00:00:00Z"],
    "status": ["200", True],
    "digest": ["../../x", 7],
    "content_type": [None],
    "request": [{}, None],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_an_answer_that_says_something_impossible_is_absent(
    stored: Stored, folder: Path, name: str, value: object
) -> None:
    key = put(stored)
    answer = files(folder)[0]
    answer.write_text(json.dumps({**json.loads(answer.read_text()), name: value}))
    assert stored.get(key) is None
    assert not answer.exists()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000])
def test_an_answer_that_is_not_json_is_absent(stored: Stored, folder: Path, content: bytes) -> None:
    key = put(stored)
    files(folder)[0].write_bytes(content)
    assert stored.get(key) is None


def test_the_answer_to_another_request_is_not_taken_for_this_one(stored: Stored, folder: Path) -> None:
    first, second = put(stored, 1), put(stored, 2, b"[2]")
    place = {path.stem: path for path in files(folder / "answers")}
    place[second].write_bytes(place[first].read_bytes())
    assert stored.get(second) is None


def test_a_body_that_is_missing_or_too_large_or_not_a_regular_file_is_absent(stored: Stored, folder: Path) -> None:
    key = put(stored)
    answer, body = files(folder)
    with body.open("r+b") as file:
        file.truncate(MOST_BYTES + 1)
    assert stored.get(key) is None
    body.unlink()
    assert stored.get(key) is None
    put(stored)
    body.unlink()
    os.mkfifo(body)
    assert stored.get(key) is None
    answer.unlink()
    os.mkfifo(answer)
    assert stored.get(key) is None


# ------------------------------------------------------------------------------------------- writing


@contextmanager
def files_may_not_grow(limit: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_the_earlier_answer_and_no_part(stored: Stored, folder: Path) -> None:
    key = put(stored)
    before = files(folder)
    with files_may_not_grow(1000), pytest.raises(OSError, match=r"(?i)large"):
        put(stored, body=b"x" * 5000)
    assert files(folder) == before
    assert stored.get(key) == response()


def test_a_folder_that_cannot_be_written_is_an_error_of_the_system(folder: Path, stored: Stored) -> None:
    folder.parent.mkdir()
    folder.write_text("a file")
    with pytest.raises(OSError, match=r"(?i)director|exists"):
        put(stored)
    assert stored.get(request_key(REQUEST)) is None


def putting(folder: Path) -> int:
    """Start a process that puts one answer after the other until it is killed; return its number."""
    if child := os.fork():
        return child
    with suppress(BaseException):
        stored = Stored(folder, keep_s=1e9, keep_mb=10)
        for number in count():
            put(stored, number % 7, b"x" * 300_000 + str(number).encode())
    os._exit(1)


def test_a_killed_writer_leaves_answers_complete_or_absent(folder: Path) -> None:
    stored = Stored(folder, keep_s=1e9, keep_mb=10)
    for number in range(6):
        processes = [putting(folder) for _ in range(2)]  # both write the same answers
        until(lambda: files(folder / "answers"), "the first answer")
        pause(0.03 * number, why="a kill at any moment")
        for process in processes:
            os.kill(process, signal.SIGKILL)
            assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL
        named = [path for path in files(folder) if not path.name.endswith(".part")]
        answers = [path for path in named if path.suffix == ".json"]
        assert all(digest_of(path.read_bytes()) == path.name for path in named if path.suffix != ".json")
        assert all(stored.get(path.stem) is not None for path in answers)
    assert answers


def test_threads_put_and_get_the_same_answer(stored: Stored) -> None:
    bodies = [str(number).encode() for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda body: put(stored, 0, body), bodies))
    (key,) = keys
    answer = stored.get(key)
    assert answer is not None
    assert answer.body in bodies


# ------------------------------------------------------------------------------------------- tidying


def age(folder: Path, key: str, hours: float, *, body: bytes) -> None:
    """Make an answer and its body older."""
    at, digest = time.time() - hours * HOUR, digest_of(body)
    os.utime(folder / "answers" / key[:2] / f"{key}.json", (at, at))
    os.utime(folder / "bodies" / digest[:2] / digest, (at, at))


def large(number: int) -> bytes:
    return str(number).encode() * 400_000


def test_what_is_too_old_is_removed_with_its_body(stored: Stored, folder: Path) -> None:
    old, new = put(stored, 1, b"old"), put(stored, 2, b"new")
    age(folder, old, 31 * 24, body=b"old")
    age(folder, new, 29 * 24, body=b"new")
    stored.tidy()
    assert stored.get(old) is None
    assert stored.get(new) == response(b"new")
    assert len(files(folder)) == 2


def test_the_oldest_is_removed_first_until_the_rest_is_small_enough(stored: Stored, folder: Path) -> None:
    keys = [put(stored, number, large(number)) for number in range(5)]
    for number, key in enumerate(keys):
        age(folder, key, 10 - number, body=large(number))
    stored.tidy()
    assert [stored.get(key) is not None for key in keys] == [False, False, False, True, True]
    assert sum(path.stat().st_size for path in files(folder)) <= 1_000_000


def test_nothing_of_the_last_hour_is_removed(folder: Path) -> None:
    stored = Stored(folder, keep_s=0, keep_mb=0)
    young, old = put(stored, 1, b"young"), put(stored, 2, b"old")
    (folder / "bodies" / "aa").mkdir(exist_ok=True)
    (folder / "bodies" / "aa" / ".x.part").write_bytes(b"being written")
    age(folder, young, 0.9, body=b"young")
    age(folder, old, 1.1, body=b"old")
    stored.tidy()
    assert stored.get(young) is not None
    assert stored.get(old) is None
    assert (folder / "bodies" / "aa" / ".x.part").exists()


def test_a_body_that_another_answer_names_stays(stored: Stored, folder: Path) -> None:
    old, new = put(stored, 1, b"both"), put(stored, 2, b"both")
    age(folder, old, 31 * 24, body=b"both")
    stored.tidy()
    assert stored.get(old) is None
    assert stored.get(new) == response(b"both")


@pytest.mark.parametrize("name", ["bodies/aa/.1.part", "answers/aa/.1.part", "bodies/aa/" + "a" * 64])
def test_parts_of_killed_writers_and_bodies_without_answers_are_removed(
    stored: Stored, folder: Path, name: str
) -> None:
    key = put(stored)
    rest = folder / name
    rest.parent.mkdir(exist_ok=True)
    rest.write_bytes(b"rest")
    os.utime(rest, (time.time() - 2 * HOUR,) * 2)
    stored.tidy()
    assert not rest.exists()
    assert stored.get(key) is not None


def test_a_folder_is_tidied_again_only_after_the_time_that_was_asked_for(stored: Stored, folder: Path) -> None:
    stored.tidy()
    assert not folder.exists(), "tidying nothing does nothing"
    key = put(stored, 1, b"old")
    stored.tidy(every_s=HOUR)
    age(folder, key, 31 * 24, body=b"old")
    stored.tidy(every_s=HOUR)
    assert stored.get(key) is not None
    stored.tidy()
    assert stored.get(key) is None
