"""A disk or a limit that lets nothing be written: the request is refused with what to free, and nothing is lost."""

import errno
import resource
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from servers import sent, state_of
from sync.state import mounted

from retrieve_cli.errors import SPACE, NoSpace, unwritable
from retrieve_cli.server.http.app import server_app
from retrieve_cli.storage.inbox import Change, Inbox


def test_documents_that_do_not_fit_are_507_and_those_before_stay(index: Path) -> None:
    inbox, limits = Inbox(index), resource.getrlimit(resource.RLIMIT_FSIZE)
    inbox.write([Change("before", None, b'{"text": "lungs"}')])
    app = server_app(state_of(index))
    resource.setrlimit(resource.RLIMIT_FSIZE, (inbox.path.stat().st_size + 50, limits[1]))
    try:
        (answer,) = sent(app, ("POST", "/documents", {"json": {"id": "a", "text": "x" * 50_000}}))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    error = answer.json()["error"]
    assert (answer.status_code, error["kind"], error["code"]) == (507, "no_space", 1)
    assert "ulimit -f" in error["hint"]
    assert [entry.id for entry in inbox.snapshot()] == ["before"]
    (answer,) = sent(app, ("POST", "/documents", {"json": {"id": "a", "text": "x" * 50_000}}))
    assert answer.status_code == 202


@pytest.fixture
def small(index: Path, tmp_path: Path) -> Iterator[Path]:
    """The artifacts folder, on a disk of its own."""
    for place in mounted(tmp_path / "small", "2m"):
        yield shutil.copytree(index, place / "artifacts")


def test_a_full_disk_is_507_for_documents_and_files_until_it_has_room(small: Path) -> None:
    app, document = server_app(state_of(small)), {"json": {"id": "a", "text": "x" * 9000}}
    file = {"files": {"file": ("a.md", b"# Lungs\n" + b"x" * 9000, "text/markdown")}}
    first = {"json": {"id": "first", "text": "lungs"}, "headers": {"Prefer": "wait=30"}}  # nothing is written after it
    assert sent(app, ("POST", "/documents", first))[0].status_code == 200
    filler = small / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as full:
        while full.write(b"x" * 4096):
            pass
    for request in (document, file):
        (answer,) = sent(app, ("POST", "/documents", request))
        error = answer.json()["error"]
        hint = error["hint"].startswith(SPACE[errno.ENOSPC])
        assert (answer.status_code, error["kind"], hint) == (507, "no_space", True)
    (answer,) = sent(app, ("GET", "/documents/first", {}))
    assert answer.json()["document"] == {"id": "first", "text": "lungs"}
    assert [entry.id for entry in Inbox(small).snapshot()] == ["first"]
    filler.unlink()
    assert [sent(app, ("POST", "/documents", request))[0].status_code for request in (document, file)] == [202, 202]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_each_error_about_space_says_what_to_free_or_raise(number: int) -> None:
    error = unwritable(Path("artifacts"), OSError(number, "no"))
    assert isinstance(error, NoSpace)
    assert error.hint.startswith(SPACE[number])
    assert "permissions" not in error.hint


def test_other_errors_are_about_permissions() -> None:
    error = unwritable(Path("artifacts"), OSError(errno.EACCES, "no"))
    assert (error.kind, "permissions" in error.hint) == ("error", True)
