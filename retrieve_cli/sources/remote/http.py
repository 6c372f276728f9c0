"""A catalog in JSON Lines at an http or https address, fetched if it has changed."""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from shlex import quote
from urllib.parse import urlsplit, urlunsplit

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.progress import BYTES, counting, task
from retrieve_cli.errors import SourceFailed, UsageError, quoted, shortened
from retrieve_cli.frozen import Frozen, asdict
from retrieve_cli.http.addresses import check_url, shown
from retrieve_cli.http.limits import gunzip, peek
from retrieve_cli.http.secrets import Credentials
from retrieve_cli.http.transport import Reply
from retrieve_cli.sources.digests import BOM
from retrieve_cli.sources.remote.transfer import ADDRESS, USUAL, Transfer, TransferLimits, intact, publish
from retrieve_cli.storage import durable
from retrieve_cli.storage.manifest import canonical, sha1 as sha1_of
from retrieve_cli.untrusted.foreign_json import foreign_json

Reject = Callable[[str, str, bytes], SourceFailed]
"""Function that makes the error from the kind of the body, a hint, and the body's beginning."""

_GZIP = b"\x1f\x8b"
_LONGEST_LINE = 16 << 20
"""Maximum bytes of the first line, which is held in memory; a longer one cannot belong to a catalog."""
_HEX = re.compile(r"[0-9a-fA-F]{40}")
_DIGEST_LINE = re.compile(r"\\?([0-9a-fA-F]{40})(?:\s++\*?(.+))?|SHA1 ?\((.+)\) ?= ?([0-9a-fA-F]{40})")
"""A line in the format of sha1sum or BSD's sha1, without trailing blanks; the name may be missing. A page that merely
mentions a digest has no line in this format."""
_DIGEST = re.compile(r"(?:^|,)\s*sha(?:-?1)?\s*=\s*:?([A-Za-z0-9+/]{27}=)", re.IGNORECASE)
"""SHA-1 in a Digest (RFC 3230) or Repr-Digest (RFC 9530) header."""
_NOT_OFFERED = frozenset(range(400, 500)) - {408, 425, 429}
"""Statuses that mean that a digest is not offered: some servers answer 403 for a missing file."""
_COMPLAINTS = frozenset("code detail documentation_url instance message path status timestamp title type".split())
"""Keys of an error that a server describes in JSON: it has `message` or `detail`, and no other keys than these."""


class _Memory(Frozen):
    """Record of the last complete download, which makes a conditional request possible."""

    address: str
    """SHA-1 of the address, which may hold a secret."""
    sha1: str
    """SHA-1 of the target file."""
    served: tuple[str, ...]
    """SHA-1 of the body that the server sent, with and without its content coding."""
    etag: str = ""
    last_modified: str = ""

    @property
    def headers(self) -> dict[str, str]:
        pairs = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in pairs.items() if value}


class HttpFetcher:
    """Fetcher for one address; it does not download again what the server reports as unchanged."""

    def __init__(
        self,
        url: str,
        *,
        limits: TransferLimits = USUAL,
        credentials: Credentials = Credentials(),
        sha1: str = "auto",
    ) -> None:
        """`sha1` is the expected digest: `auto` (as published by the server, in a header or at `<url>.sha1`), 40 hex
        digits, the address of a file that contains them, or `none`.

        Raises:
            UsageError: the address, `sha1` or the credentials are invalid.
        """
        check_url(url, ADDRESS)
        self._url = url
        self._sha1 = sha1
        self._limits, self._credentials = limits, credentials
        if self._sha1 in ("auto", "none"):
            return
        if self._sha1.startswith(("http://", "https://")):
            check_url(self._sha1, ADDRESS)
        elif _HEX.fullmatch(self._sha1):
            self._sha1 = self._sha1.lower()
        else:
            hint = "set it to auto, none, 40 hex digits, or the address of a file that contains them"
            raise UsageError(f"sha1 is {quoted(self._sha1)}, which is not a SHA-1", hint=hint)

    def fetch(self, target: Path) -> None:
        """Update `target` and the files beside it. On failure they stay unchanged.

        Raises:
            SourceFailed: the server does not answer, or the answer is not JSON Lines of objects.
            UsageError: a credential's variable is not set.
            Unavailable: urllib3 is not installed.
        """
        memory = self._recall(target)
        with Transfer(self._url, credentials=self._credentials, limits=self._limits) as transfer:
            receive = partial(self._receive, transfer, target, memory)
            headers = memory.headers if memory else {}
            transfer.ask(receive, headers=headers, statuses=(200, 304) if headers else (200,))

    def _receive(self, transfer: Transfer, target: Path, memory: _Memory | None, reply: Reply) -> None:
        if reply.status == 304 and memory:
            return
        # A compressing server may offer the digest of the coded body (by the header's definition) or of the plain one.
        travelled, decoded = (hashlib.sha1(usedforsecurity=False) for _ in range(2))
        length = reply.headers.get("Content-Length", "")
        announced = int(length) if length.isascii() and length.isdigit() and len(length) < 16 else None
        with task(f"fetching {shortened(transfer.origin, 50)}", BYTES, announced) as progress:
            travelling = counting(_hashed(reply.travelling, travelled), progress)
            # The magic bytes of gzip decide; name and type do not matter.
            head, body = peek(_hashed(reply.decoded(travelling), decoded), len(_GZIP))
            unpacked = gunzip(body) if head == _GZIP else body
            pieces = json_lines(transfer.limited(unpacked), partial(_rejection, transfer, reply))
            sha1 = publish(target, self._checked(transfer, reply, pieces, (travelled, decoded)))
        etag, modified = reply.headers.get("ETag", ""), reply.headers.get("Last-Modified", "")
        served = travelled.hexdigest(), decoded.hexdigest()
        memory = _Memory(sha1_of(self._url), sha1, served, etag, modified)
        # Without the record, the next fetch is a full one: no reason to fail this one.
        with suppress(OSError):
            durable.replace(_memory_path(target), canonical(asdict(memory)).decode() + "\n")

    def _checked(
        self, transfer: Transfer, reply: Reply, pieces: Iterable[bytes], digests: Iterable[hashlib._Hash]
    ) -> Iterator[bytes]:
        """Yield the pieces; raise an error instead of ending if their SHA-1 is not the promised one."""
        yield from pieces
        expected, where = self._expected(transfer, reply)
        hashes = [digest.hexdigest() for digest in digests]
        if expected and expected not in hashes:
            raise SourceFailed(
                f"{transfer.origin} has SHA-1 {hashes[0]}; {where} says {expected}",
                hint="fetch again; if they still differ, ask the publisher of the catalog (sha1: none skips the check)",
            )

    def _expected(self, transfer: Transfer, reply: Reply) -> tuple[str, str]:
        """Return the expected SHA-1 of the download and its origin; both empty if the server publishes no SHA-1."""
        if self._sha1 == "none":
            return "", ""
        if _HEX.fullmatch(self._sha1):
            return self._sha1, "the setting sha1"
        if self._sha1 == "auto":
            offered = reply.headers.get("X-Checksum-Sha1", "").strip()
            if _HEX.fullmatch(offered):
                return offered.lower(), "its header X-Checksum-Sha1"
            for name in ("Repr-Digest", "Digest"):
                if match := _DIGEST.search(reply.headers.get(name, "")):
                    return b64decode(match.group(1)).hex(), f"its header {name}"
        parts, is_offered = urlsplit(self._url), self._sha1 == "auto"
        name = parts.path.rpartition("/")[2]
        beside = urlunsplit((parts.scheme, parts.netloc, parts.path + ".sha1", parts.query, ""))
        url = beside if is_offered else self._sha1

        def receive(reply: Reply) -> str:
            body = reply.head() if reply.status == 200 else b""
            return _digest_for(name, body.decode("utf-8", "replace"))

        digest = transfer.ask(receive, url=url, statuses=(200, *_NOT_OFFERED) if is_offered else (200,))
        if not digest and not is_offered:
            raise SourceFailed(f"{shown(url)} holds no SHA-1 of {name}", hint="fix sha1, or set sha1: auto")
        return digest, shown(url)

    def _recall(self, target: Path) -> _Memory | None:
        """Return the record of the last download, if the target is unchanged and meets the current `sha1`."""
        try:
            memory = _Memory(**foreign_json(_memory_path(target).read_text("utf-8")))
            usable = (memory.etag + memory.last_modified).isprintable() and memory.headers
            verified = not _HEX.fullmatch(self._sha1) or self._sha1 in memory.served
        except (OSError, ValueError, TypeError):
            return None
        same = memory.address == sha1_of(self._url)
        return memory if usable and verified and same and memory.sha1 == intact(target) else None


def _memory_path(target: Path) -> Path:
    return target.with_name(target.name + ".http.json")


def _digest_for(name: str, text: str) -> str:
    """Return the SHA-1 in a checksum file: the only one, or the one of `name` among several; else empty."""
    lines = [line for line in map(_DIGEST_LINE.fullmatch, map(str.rstrip, text.splitlines())) if line]
    of_name = [line for line in lines if (line[2] or line[3] or "").rpartition("/")[2] == name]
    chosen = of_name or (lines if len(lines) == 1 else [])
    return (chosen[0][1] or chosen[0][4]).lower() if chosen else ""


def _hashed(pieces: Iterable[bytes], digest: hashlib._Hash) -> Iterator[bytes]:
    for piece in pieces:
        digest.update(piece)
        yield piece


def json_lines(pieces: Iterator[bytes], reject: Reject) -> Iterator[bytes]:
    """Yield the pieces unchanged, after checking that their first line that is not blank is a JSON object.

    Raises:
        SourceFailed: made by `reject`; the line is not an object, or the whole body is an error message in JSON.
    """
    head = bytearray()
    for piece in pieces:
        head += piece
        if b"\n" in piece and _content(head).count(b"\n"):
            break
        if len(head) > _LONGEST_LINE:
            hint = "publish one object per line: jq -c ."
            raise reject(f"text without a line end in its first {_LONGEST_LINE} bytes", hint, bytes(head))
    line, _, rest = _content(head).partition(b"\n")
    item = _object(line, reject)
    yield bytes(head)
    more = bool(rest.strip())
    for piece in pieces:
        more = more or bool(piece.strip())
        yield piece
    # An error message of a server (RFC 9457 and similar) is raised only at the end, when nothing can follow: the file
    # is published after its last piece.
    keys = item.keys()
    complains = not item or keys & {"error", "errors"} or (keys & {"message", "detail"} and keys <= _COMPLAINTS)
    if complains and not more:
        raise reject("an error message", "follow the message", line)


def _content(head: bytearray) -> bytes:
    return bytes(head).removeprefix(BOM).lstrip()


def _object(line: bytes, reject: Reject) -> dict[str, Json]:
    if not line:
        raise reject("an empty answer", "check that the catalog exists", line)
    try:
        item = foreign_json(line)
    except ValueError:
        item = None
    if isinstance(item, dict):
        return item
    if line.startswith(b"<"):
        raise reject("an HTML or XML page", "open the address in a browser and copy the address of the file", line)
    if line.startswith(b"["):
        raise reject("a JSON array", "publish it as JSON Lines: jq -c '.[]'", line)
    if line.startswith(b"{"):
        raise reject("a JSON document over several lines", "publish it as JSON Lines: jq -c .", line)
    raise reject("text that is not JSON", "use the address of a file with one JSON object per line", line)


def _rejection(transfer: Transfer, reply: Reply, what: str, hint: str, body: bytes) -> SourceFailed:
    details = f": {transfer.excerpt(body)}" if body else ""
    if reply.url != transfer.url:
        details = f", after a redirect to {shown(reply.url)}{details}"
        hint = f"{hint}; if it is a login page, set token_env (or user_env and password_env)"
    return SourceFailed(
        f"{transfer.origin} is not JSON Lines but {what}{details}", hint=f"{hint} (curl -sSL {quote(transfer.origin)})"
    )
