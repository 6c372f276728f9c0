"""Answers of providers on disk: bodies by the SHA-256 of their bytes, and which request got which of them.

    artifacts/web/bodies/<aa>/<sha256>         a body
    artifacts/web/answers/<aa>/<key>.json      {request, at, status, content_type, digest}; <key> is of the request
    artifacts/web/**/.<random>.part            a file that is being written

A file is complete on the disk before it has its name, and a body before its answer. A damaged file counts as absent.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.websearch import Response
from retrieve_cli.http.guarded import MOST_BYTES
from retrieve_cli.storage import durable
from retrieve_cli.storage.manifest import canonical
from retrieve_cli.untrusted.files import CONFIG, read_bytes, read_text, regular_descriptor

_SHA256 = re.compile(r"[0-9a-f]{64}")
_AT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_YOUNG_S = 3600.0
"""Files younger than this are not removed: another process may be about to name a body."""


def request_key(request: Json) -> str:
    """Return the SHA-256 of the canonical JSON of a request, 64 hexadecimal digits."""
    return hashlib.sha256(canonical(request)).hexdigest()


def digest_of(body: bytes) -> str:
    """Return the SHA-256 of a body, 64 hexadecimal digits."""
    return hashlib.sha256(body).hexdigest()


def is_response(value: Json) -> bool:
    """Return True for an object with the status, the content type, the time and the digest of a response."""
    if not isinstance(value, dict):
        return False
    status, kind, at, digest = (value.get(name) for name in ("status", "content_type", "at", "digest"))
    if type(status) is not int or not all(isinstance(part, str) for part in (kind, at, digest)):
        return False
    return bool(_SHA256.fullmatch(str(digest))) and seconds_of(str(at)) is not None


def seconds_of(at: str) -> float | None:
    """Return the seconds since 1970 of a time as `Response.at` has it; None for anything else."""
    try:
        return datetime.fromisoformat(at).timestamp() if _AT.fullmatch(at) else None
    except (ValueError, OverflowError):
        return None


class Stored:
    """Answers in a folder, for any number of threads and processes."""

    def __init__(self, folder: Path, *, keep_s: float, keep_mb: int) -> None:
        """Answers are kept for `keep_s` seconds, and the latest `keep_mb` megabytes of them: see `tidy`."""
        self._folder = folder
        self._keep_s = keep_s
        self._keep_bytes = keep_mb * 1_000_000

    def get(self, request_key: str) -> Response | None:
        """Return the stored answer to a request, of any age; None if no answer is stored.

        A damaged answer or body is removed.
        """
        path = self._answer(request_key)
        try:
            said = _read(path)
        except OSError:
            return None
        if said is None:
            _remove(path)
            return None
        place = self._body(said["digest"])
        try:
            body = read_bytes(place, limit=MOST_BYTES)
        except OSError:
            return None
        if digest_of(body) != said["digest"]:
            _remove(path)
            _remove(place)
            return None
        return Response(said["status"], said["content_type"], body, said["at"], said["digest"])

    def put(self, request_key: str, request: Json, response: Response) -> None:
        """Store the answer to a request, in place of an earlier one.

        Raises:
            OSError: the folder cannot be written.
        """
        said = {"status": response.status, "content_type": response.content_type, "at": response.at}
        entry = {"request": request, **said, "digest": response.digest}
        _place(self._body(response.digest), response.body)
        _place(self._answer(request_key), canonical(entry) + b"\n")

    def tidy(self, *, every_s: float = 0.0) -> None:
        """Remove answers that are too old, then the oldest beyond the size, with bodies that no other answer names.

        Nothing that was written in the last hour is removed. What cannot be removed stays. Nothing happens if it was
        tidied in the last `every_s` seconds.
        """
        now = time.time()
        if self._is_tidy(now, every_s):
            return
        paths = [path for name in ("answers", "bodies") for path in (self._folder / name).glob("*/*")]
        files = {path: known for path in paths if (known := _known(path))}
        answers = [path for path in files if path.suffix == ".json"]
        kept: set[Path] = set()
        size = 0
        for answer in sorted(answers, key=lambda path: (files[path].st_mtime, path.name), reverse=True):
            both = {answer, self._body(_named(answer))} & files.keys()
            size += sum(files[path].st_size for path in both - kept)
            if _is_young(answer, now) or (now - files[answer].st_mtime <= self._keep_s and size <= self._keep_bytes):
                kept |= both
        for path in files.keys() - kept:
            if not _is_young(path, now):  # another process may have written it since the folder was listed
                _remove(path)

    def _is_tidy(self, now: float, every_s: float) -> bool:
        """Return True if it was tidied a short time ago; otherwise note that it is now."""
        marker = self._folder / "tidied"
        with suppress(OSError):
            if 0 <= now - marker.stat().st_mtime < every_s:
                return True
        with suppress(OSError):
            durable.replace_later(marker, "")
        return False

    def _body(self, digest: str) -> Path:
        return self._folder / "bodies" / digest[:2] / digest

    def _answer(self, key: str) -> Path:
        return self._folder / "answers" / key[:2] / f"{key}.json"


def _read(answer: Path) -> Json:
    """Return the stored fields of the answer to the request of its name; None if it is damaged. Raises: OSError."""
    try:
        said = json.loads(read_text(answer, limit=CONFIG))
        return said if is_response(said) and request_key(said.get("request")) == answer.stem else None
    except (ValueError, RecursionError):
        return None


def _named(answer: Path) -> str:
    """Return the digest of the body that an answer names; empty if it is damaged."""
    with suppress(OSError):
        if said := _read(answer):
            return str(said["digest"])
    return ""


def _known(path: Path) -> os.stat_result | None:
    with suppress(OSError):
        return path.lstat()
    return None


def _is_young(path: Path, now: float) -> bool:
    known = _known(path)
    return known is None or abs(now - known.st_mtime) < _YOUNG_S


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)


def _place(path: Path, data: bytes) -> None:
    """Write a file that is complete on the disk before it has its name. Raises: OSError."""
    durable.make_folder(path.parent)
    part = path.with_name(f".{os.urandom(12).hex()}.part")
    try:
        with open(part, "xb", opener=regular_descriptor) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        _remove(part)
        raise
    durable.sync(path.parent)
