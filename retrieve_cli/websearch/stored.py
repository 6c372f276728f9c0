"""Answers of providers on disk: bodies by the SHA-256 of their bytes, and which request got which of them.

    artifacts/web/bodies/<aa>/<sha256>         a body
    artifacts/web/answers/<aa>/<key>.json      {request, at, status, content_type, digest}; <key> is of the request
    artifacts/web/**/.<random>.part            a file that is being written

A file is complete on the disk before it has its name, and a body before its answer. A damaged file counts as absent.

Exchanges of one search, as a saved run holds them and a replay answers from them.

    {"exchanges": {<key of the request>: {"request", "response": {"status", "content_type", "at", "digest"}, "age_s"}
                                         | {"request", "failure": {"kind", …}}},
     "failures": {"provider:pubmed": {"kind", …}}}

`failures` are failures of whole providers: no key, no answer in time. Bodies are stored separately, by digest.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TypeAlias, get_args

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.websearch import Failure, Response
from retrieve_cli.errors import UsageError
from retrieve_cli.frozen import asdict
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
        """Store the answer to a request, in place of an earlier one. Raises: OSError: the folder cannot be written."""
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


_KINDS = {kind.kind: kind for kind in get_args(Failure)}
_HINT = "save the run again: retrieve web TEXT --save-run"


class Answered(NamedTuple):
    """A response, with its age if it was stored before the search."""

    response: Response
    age_s: float | None
    """Age in seconds; None: it was sent for the search."""


Outcome: TypeAlias = Answered | Failure


class Tape:
    """Exchanges in any order, from any number of threads. The first outcome of a request stays."""

    def __init__(self) -> None:
        self._exchanges: dict[str, tuple[Json, Outcome]] = {}
        self._failures: dict[str, Failure] = {}
        self._lock = Lock()

    def keep(self, key: str, request: Json, outcome: Outcome) -> Outcome:
        """Add the outcome of a request, and return the one that stays: an earlier one if there is one."""
        with self._lock:
            return self._exchanges.setdefault(key, (request, outcome))[1]

    def outcome(self, key: str) -> Outcome | None:
        """Return the outcome of a request; None if it was not sent."""
        with self._lock:
            return self._exchanges[key][1] if key in self._exchanges else None

    def keep_failure(self, asked: str, failure: Failure) -> None:
        """Add the failure of a whole provider or enricher, such as `provider:pubmed`."""
        with self._lock:
            self._failures[asked] = failure

    def failure(self, asked: str) -> Failure | None:
        """Return the failure of a whole provider or enricher; None if it did not fail."""
        with self._lock:
            return self._failures.get(asked)

    def to_json(self) -> Json:
        """Return all exchanges in the order of their keys, without bodies."""
        with self._lock:
            exchanges = {key: _exchange_json(*self._exchanges[key]) for key in sorted(self._exchanges)}
            failures = {name: _failure_json(self._failures[name]) for name in sorted(self._failures)}
        return {"exchanges": exchanges, "failures": failures}

    def bodies(self) -> Mapping[str, bytes]:
        """Return the bodies of all responses, by SHA-256."""
        with self._lock:
            outcomes = [outcome for _, outcome in self._exchanges.values()]
        responses = [outcome.response for outcome in outcomes if isinstance(outcome, Answered)]
        return {response.digest: response.body for response in sorted(responses, key=lambda one: one.digest)}

    @classmethod
    def of(cls, value: Json, read_body: Callable[[str], bytes]) -> Tape:
        """Return the tape that `to_json` described; `read_body` returns a body by its digest.

        Raises:
            UsageError: it is damaged, or a body is missing or does not match its digest.
        """
        tape = cls()
        try:
            for key, entry in value["exchanges"].items():
                if request_key(entry["request"]) != key:
                    raise ValueError(f"the request {key} is a different one")
                tape.keep(key, entry["request"], _outcome(entry, read_body))
            for asked, failure in value["failures"].items():
                tape.keep_failure(str(asked), _failure(failure))
        except KeyError as error:
            raise UsageError(f"the saved run is damaged: {error} is missing", hint=_HINT) from error
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise UsageError(f"the saved run is damaged: {error}", hint=_HINT) from error
        except OSError as error:
            raise UsageError(f"cannot read a body of the saved run: {error.strerror}", hint=_HINT) from error
        return tape


def _exchange_json(request: Json, outcome: Outcome) -> Json:
    if not isinstance(outcome, Answered):
        return {"request": request, "failure": _failure_json(outcome)}
    response = outcome.response
    kept = {name: getattr(response, name) for name in ("status", "content_type", "at", "digest")}
    return {"request": request, "response": kept, "age_s": outcome.age_s}


def _outcome(entry: Json, read_body: Callable[[str], bytes]) -> Outcome:
    if "failure" in entry:
        return _failure(entry["failure"])
    said, age_s = entry["response"], entry["age_s"]
    if not is_response(said) or not (age_s is None or _is_number(age_s)):
        raise ValueError("it describes a response incompletely")
    body = read_body(said["digest"])
    if digest_of(body) != said["digest"]:
        raise ValueError(f"the body {said['digest']} has other bytes")
    response = Response(said["status"], said["content_type"], body, said["at"], said["digest"])
    return Answered(response, age_s)


def _failure_json(failure: Failure) -> Json:
    return {"kind": failure.kind, **asdict(failure)}


def _failure(said: Json) -> Failure:
    kind = _KINDS[said["kind"]]
    given = {name: value for name, value in said.items() if name != "kind"}
    for name, value in given.items():
        numeric = {"status": type(value) is int, "retry_after": value is None or _is_number(value)}
        if not numeric.get(name, isinstance(value, str)):
            raise ValueError(f"the failure {kind.kind} has an invalid {name}")
    made: Failure = kind(**given)
    return made


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")
