"""One fetch from one server: attempts within a deadline, and every failure in words for the catalog's maintainer.

Transfer.ask -> attempts -> Transport -> Reply -> receive(reply)

Atomic publication of a fetched catalog, with its SHA-1 in a file beside it.

The file is replaced first and its digest last, so a matching digest marks a finished publication. After a crash between
the two the digest does not match, `intact` reports that, and the next fetch downloads everything.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Self, TypeVar
from urllib.parse import urlencode, urlsplit

from retrieve_cli.errors import SourceFailed, UsageError
from retrieve_cli.frozen import Frozen
from retrieve_cli.http.addresses import Wording, check_url, resolve, shown, without_user
from retrieve_cli.http.limits import (
    PASSING,
    Clock,
    GaveUp,
    HttpFailed,
    Retries,
    TransientFailure,
    limit_size,
    persist,
    retry_after,
)
from retrieve_cli.http.secrets import Credentials, Secret, hide, quoted
from retrieve_cli.http.transport import HEAD, HttpRequest, Redirect, Reply, Transport
from retrieve_cli.storage import durable
from retrieve_cli.storage.manifest import sha1_file

T = TypeVar("T")

ADDRESS = Wording(
    called="address",
    form="https://HOST/PATH",
    user="the address of {} contains a user, and addresses are stored in the index",
    instead="remove it, and name environment variables: user_env and password_env",
)
_HEADERS = {"Accept": "*/*", "Accept-Encoding": "gzip, deflate"}
_MOST_REDIRECTS = 10
_EXCERPT = 160
"""Maximum characters of a body in an error."""


class TransferLimits(Frozen):
    """Limits of time, attempts and size for requests to a server."""

    timeout_s: float = 30.0
    """Maximum seconds without a byte."""
    deadline_s: float = 600.0
    """Maximum seconds for everything: connecting, headers, bodies, retries, pauses and pages."""
    retries: int = 4
    backoff_s: float = 0.5
    max_bytes: int = 2 << 30
    """Maximum decompressed bytes of one fetch."""


USUAL = TransferLimits()


class Transfer:
    """A fetch in progress: `with Transfer(url, ...) as transfer: transfer.ask(receive)`.

    Credentials go only to the server of `url`: a redirect to another server is followed without them.
    """

    def __init__(self, url: str, *, credentials: Credentials, limits: TransferLimits, probe: str = "") -> None:
        """`probe` is a command that shows the server's answer to a person.

        Raises:
            UsageError: a credential's variable is not set.
        """
        self.url = url
        self.origin = shown(url)
        self.probe = probe or f"check the server: curl -sSIL {quote(self.origin)}"
        self._limits = limits
        self._credentials = credentials
        self._authorization = credentials.read()
        query = urlsplit(url).query
        self._secrets = [*self._authorization.secrets, *([Secret(query)] if query else [])]
        self._clock = Clock(limits.deadline_s, limits.timeout_s)
        self._transport = Transport(url, called="the address", follow=self._follow)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._transport.close()

    def ask(
        self,
        receive: Callable[[Reply], T],
        *,
        url: str = "",
        headers: Mapping[str, str] | None = None,
        form: Mapping[str, str] | None = None,
        statuses: Container[int] = (200,),
    ) -> T:
        """Return the result of `receive` for the reply. A form is sent by POST. Temporary failures are retried.

        Raises:
            SourceFailed: no reply, an unexpected status, or a truncated reply, after the last attempt.
            Unavailable: urllib3 is not installed.
        """
        url = url or self.url
        body = None if form is None else urlencode(form).encode()
        kind = {} if form is None else {"Content-Type": "application/x-www-form-urlencoded"}
        request = HttpRequest(url, {**_HEADERS, **(headers or {}), **kind}, body, self._authorization.header)

        def attempt() -> T:
            with self._transport.open(request, self._clock) as reply:
                self._check_status(statuses, reply, url)
                return receive(reply)

        retries = Retries(self._limits.retries, self._limits.backoff_s)
        try:
            return persist(attempt, retries, sleep=time.sleep, until=self._clock.until)
        except GaveUp as gave_up:
            message, is_late = f"cannot fetch {shown(url)}: {gave_up}", time.monotonic() >= self._clock.until
            hint = f"if the server is slow, raise deadline_s of the source; {self.probe}" if is_late else self.probe
        except HttpFailed as failed:
            message, hint = str(failed), failed.hint
        raise SourceFailed(hide(message, self._secrets), hint=hint)

    def excerpt(self, raw: bytes) -> str:
        """Return the beginning of a body in quotation marks, without secrets and control characters."""
        return quoted(raw[:HEAD].decode("utf-8", "replace"), self._secrets, most=_EXCERPT)

    def limited(self, pieces: Iterable[bytes], *, before: int = 0) -> Iterator[bytes]:
        """Yield the pieces, as long as they and the `before` bytes before them stay within the limit.

        Raises:
            SourceFailed: they exceed it.
        """
        most = self._limits.max_bytes
        hint = "if this size is expected, raise the limit: max_mb of the source"
        too_large = SourceFailed(f"{self.origin} sent more than {most} bytes (decompressed)", hint=hint)
        return limit_size(pieces, most - before, lambda: too_large)

    def _follow(self, redirect: Redirect) -> str:
        if redirect.number > _MOST_REDIRECTS:
            raise SourceFailed(f"{self.origin} redirects more than {_MOST_REDIRECTS} times", hint=self.probe)
        try:
            target = without_user(resolve(redirect.url, redirect.location))
            check_url(target, ADDRESS)
        except (UsageError, ValueError):
            message = f"{shown(redirect.url)} redirects to something that is not an http address"
            raise SourceFailed(message, hint=self.probe) from None
        return target

    def _check_status(self, statuses: Container[int], reply: Reply, url: str) -> None:
        if reply.status in statuses:
            return
        answer = f"the server answered {reply.status}: {self.excerpt(reply.head())}"
        if reply.status in PASSING:
            raise TransientFailure(answer, after=retry_after(reply.headers.get("Retry-After", "")), status=reply.status)
        hint = self.probe
        if reply.status in (401, 403):
            names = self._credentials.names
            hint = (
                f"the server rejected the credentials ({names}): check them" if names
                else "if it needs credentials, list it under `sources:` in config.yaml with token_env, or user_env and "
                "password_env"
            )  # fmt: skip
        raise SourceFailed(f"cannot fetch {shown(url)}: {answer}", hint=hint)


def intact(target: Path) -> str:
    """Return the target's SHA-1 if the file beside it agrees; empty if either is missing or they differ."""
    try:
        promised = _digest_path(target).read_text("utf-8", "replace").partition(" ")[0]
        return promised if promised == sha1_file(target) else ""
    except OSError:
        return ""


def publish(target: Path, pieces: Iterable[bytes]) -> str:
    """Replace the target by the pieces in one step, write its SHA-1 beside it, and return the SHA-1.

    The target does not change before the last piece: if the pieces raise an error, it stays unchanged. Content that is
    the same is not written again.

    Raises:
        SourceFailed: the file cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        sha1 = _replace(target, pieces)
        beside, line = _digest_path(target), f"{sha1}  {target.name}\n"
        if not (beside.is_file() and beside.read_bytes() == line.encode()):
            durable.replace(beside, line)
    except OSError as error:
        hint = f"check the permissions and the free space: df -h {quote(str(target.parent))}"
        raise SourceFailed(f"cannot write {target}: {error.strerror}", hint=hint) from error
    return sha1


def sweep(folder: Path) -> None:
    """Remove the partial files of interrupted fetches. No other fetch into the folder may be running."""
    for pattern in (".*.part", ".*.new"):
        for path in folder.glob(pattern):
            with suppress(OSError):
                path.unlink()


def _replace(target: Path, pieces: Iterable[bytes]) -> str:
    """Put the pieces in the target's place and return their SHA-1."""
    new = target.with_name(f".{target.name}.part")
    digest = hashlib.sha1(usedforsecurity=False)
    try:
        with new.open("wb") as file:
            for piece in pieces:
                digest.update(piece)
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        # Compare the content, not the digest file, which may be outdated after a crash.
        if not (target.is_file() and sha1_file(target) == digest.hexdigest()):
            new.replace(target)
            durable.sync(target.parent)
    finally:
        with suppress(OSError):
            new.unlink()
    return digest.hexdigest()


def _digest_path(target: Path) -> Path:
    """Return the path of the file that holds the SHA-1 of `target` in the format of sha1sum."""
    return target.with_name(target.name + ".sha1")
