"""A catalog in JSON Lines behind an http or https address, fetched when it has changed."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from shlex import quote
from urllib.parse import urlsplit, urlunsplit

from retrieve_cli.contracts import Json
from retrieve_cli.errors import SourceFailed, UsageError, quoted, shortened
from retrieve_cli.progress.tasks import BYTES, counting, task
from retrieve_cli.sources.remote.publication import intact, publish
from retrieve_cli.sources.remote.transfer import ADDRESS, Limits, Transfer
from retrieve_cli.storage import durable
from retrieve_cli.storage.manifest import canonical, sha1 as sha1_of
from retrieve_cli.web.addresses import check_url, shown
from retrieve_cli.web.limits import gunzip, peeked
from retrieve_cli.web.secrets import Credentials
from retrieve_cli.web.transport import Reply

Refuse = Callable[[str, str, bytes], SourceFailed]
"""Makes the error from what the body is, a hint, and the body's beginning."""

_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_LONGEST_LINE = 16 << 20
"""Bytes of the first line: more of it is no catalog, and it is held in memory."""
_HEX = re.compile(r"[0-9a-fA-F]{40}")
_DIGEST_LINE = re.compile(r"\\?([0-9a-fA-F]{40})(?:\s+\*?(.+))?|SHA1 ?\((.+)\) ?= ?([0-9a-fA-F]{40})")
"""A line as sha1sum or BSD's sha1 writes it, without blanks at its end; the name may be missing. A page that merely
mentions a digest has none."""
_DIGEST = re.compile(r"(?:^|,)\s*sha(?:-?1)?\s*=\s*:?([A-Za-z0-9+/]{27}=)", re.IGNORECASE)
"""SHA-1 in a Digest (RFC 3230) or Repr-Digest (RFC 9530) header."""
_NOT_OFFERED = frozenset(range(400, 500)) - {408, 425, 429}
"""Answers to a question for a digest: some servers hide with 403 what is not there."""
_COMPLAINTS = frozenset("code detail documentation_url instance message path status timestamp title type".split())
"""Keys of an error that a server describes in JSON; with `message` or `detail`, and no key beyond these."""


@dataclass(frozen=True, slots=True)
class _Memory:
    """What is kept of the last good download, so that the next one can ask for changes alone."""

    address: str
    """SHA-1 of the address, which may hold a secret."""
    sha1: str
    """SHA-1 of the target it belongs to."""
    served: tuple[str, ...]
    """SHA-1 of what the server sent, as it travelled and without its content coding."""
    etag: str = ""
    last_modified: str = ""

    @property
    def headers(self) -> dict[str, str]:
        pairs = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in pairs.items() if value}


class HttpFetcher:
    """Fetches one address; what the server says has not changed is not fetched again."""

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float = Limits.timeout_s,
        retries: int = Limits.retries,
        max_bytes: int = Limits.max_bytes,
        sha1: str = "auto",
        token_env: str | None = None,
        user_env: str | None = None,
        password_env: str | None = None,
        deadline_s: float = Limits.deadline_s,
        backoff_s: float = Limits.backoff_s,
    ) -> None:
        """`sha1` says what the download is held to: `auto` (what the server offers, in a header or at `<url>.sha1`),
        40 hex digits, the address of a file with them, or `none`.

        Raises:
            UsageError: the address, `sha1` or the credentials cannot be meant.
        """
        check_url(url, ADDRESS)
        self._url = url
        self._sha1 = sha1
        self._limits = Limits(timeout_s, deadline_s, retries, backoff_s, max_bytes)
        self._credentials = Credentials(token_env, user_env, password_env)
        if self._sha1 in ("auto", "none"):
            return
        if self._sha1.startswith(("http://", "https://")):
            check_url(self._sha1, ADDRESS)
        elif _HEX.fullmatch(self._sha1):
            self._sha1 = self._sha1.lower()
        else:
            hint = "write auto, none, 40 hex digits, or the address of a file that holds them"
            raise UsageError(f"sha1 is {quoted(self._sha1)}, which is no SHA-1", hint=hint)

    def fetch(self, target: Path) -> None:
        """Brings `target` and the files beside it up to date. What was there stays as it was where this fails.

        Raises:
            SourceFailed: the server does not answer, or with something else than JSON Lines of objects.
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
        # A server that compresses on the fly offers the digest of either, by the header's definition and by its habit.
        travelled, decoded = (hashlib.sha1(usedforsecurity=False) for _ in range(2))
        with task(f"fetching {shortened(transfer.origin, 50)}", BYTES, _length(reply)) as progress:
            travelling = counting(_hashed(reply.travelling, travelled), progress)
            body = _hashed(reply.decoded(travelling), decoded)
            pieces = json_lines(transfer.limited(_unpacked(body)), partial(_refusal, transfer, reply))
            sha1 = publish(target, self._checked(transfer, reply, pieces, (travelled, decoded)))
        self._remember(target, reply, (travelled.hexdigest(), decoded.hexdigest()), sha1)

    def _checked(
        self, transfer: Transfer, reply: Reply, pieces: Iterable[bytes], digests: Iterable[hashlib._Hash]
    ) -> Iterator[bytes]:
        """The pieces, and an error in place of their end where they are not what the server promised."""
        yield from pieces
        expected, where = self._expected(transfer, reply)
        found = [digest.hexdigest() for digest in digests]
        if expected and expected not in found:
            raise SourceFailed(
                f"{transfer.origin} has SHA-1 {found[0]}; {where} says {expected}",
                hint="fetch again; where it stays so, ask who keeps the catalog (sha1: none would not check)",
            )

    def _expected(self, transfer: Transfer, reply: Reply) -> tuple[str, str]:
        """The SHA-1 that the download should have, and who says so; both empty where nobody does."""
        if self._sha1 == "none":
            return "", ""
        if _HEX.fullmatch(self._sha1):
            return self._sha1, "the setting sha1"
        if self._sha1 == "auto":
            offered = reply.headers.get("X-Checksum-Sha1", "").strip()
            if _HEX.fullmatch(offered):
                return offered.lower(), "its header X-Checksum-Sha1"
            for name in ("Repr-Digest", "Digest"):
                if found := _DIGEST.search(reply.headers.get(name, "")):
                    return b64decode(found.group(1)).hex(), f"its header {name}"
        parts = urlsplit(self._url)
        beside = urlunsplit((parts.scheme, parts.netloc, parts.path + ".sha1", parts.query, ""))
        url = beside if self._sha1 == "auto" else self._sha1
        return self._ask_for_digest(transfer, url, parts.path.rpartition("/")[2])

    def _ask_for_digest(self, transfer: Transfer, url: str, name: str) -> tuple[str, str]:
        def receive(reply: Reply) -> str:
            body = reply.head() if reply.status == 200 else b""
            return _digest_for(name, body.decode("utf-8", "replace"))

        offered = self._sha1 == "auto"
        digest = transfer.ask(receive, url=url, statuses=(200, *_NOT_OFFERED) if offered else (200,))
        if not digest and not offered:
            raise SourceFailed(f"{shown(url)} holds no SHA-1 of {name}", hint="correct sha1, or write sha1: auto")
        return digest, shown(url)

    def _recall(self, target: Path) -> _Memory | None:
        """What the last download left, where the target is still what it was and was held to what is asked now."""
        try:
            memory = _Memory(**json.loads(_memory_path(target).read_text("utf-8")))
            known = (memory.etag + memory.last_modified).isprintable() and memory.headers
            held = not _HEX.fullmatch(self._sha1) or self._sha1 in memory.served
        except (OSError, ValueError, TypeError):
            return None
        same = memory.address == sha1_of(self._url)
        return memory if known and held and same and memory.sha1 == intact(target) else None

    def _remember(self, target: Path, reply: Reply, served: tuple[str, ...], sha1: str) -> None:
        etag, modified = reply.headers.get("ETag", ""), reply.headers.get("Last-Modified", "")
        memory = _Memory(sha1_of(self._url), sha1, served, etag, modified)
        # Without it the next fetch is a full one: no reason to call this one failed.
        with suppress(OSError):
            durable.replace(_memory_path(target), canonical(asdict(memory)).decode() + "\n")


def _length(reply: Reply) -> int | None:
    """The bytes that a server says it sends."""
    length = reply.headers.get("Content-Length", "")
    return int(length) if length.isascii() and length.isdigit() and len(length) < 16 else None


def _memory_path(target: Path) -> Path:
    return target.with_name(target.name + ".http.json")


def _digest_for(name: str, text: str) -> str:
    """The SHA-1 in a checksum file: the only one, or that of `name` among several; empty where there is none."""
    found = [line for line in map(_DIGEST_LINE.fullmatch, map(str.rstrip, text.splitlines())) if line]
    of_name = [line for line in found if (line[2] or line[3] or "").rpartition("/")[2] == name]
    chosen = of_name or (found if len(found) == 1 else [])
    return (chosen[0][1] or chosen[0][4]).lower() if chosen else ""


def _hashed(pieces: Iterable[bytes], digest: hashlib._Hash) -> Iterator[bytes]:
    for piece in pieces:
        digest.update(piece)
        yield piece


def _unpacked(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces, unpacked where they are a gzip file by their first bytes, whatever its name or type say."""
    head, whole = peeked(pieces, len(_GZIP))
    return gunzip(whole) if head == _GZIP else whole


def json_lines(pieces: Iterator[bytes], refuse: Refuse) -> Iterator[bytes]:
    """The pieces unchanged, once their first line that is not blank has proved to be a JSON object.

    Raises:
        SourceFailed: made by `refuse`; it is no object, or an error described in JSON and nothing else.
    """
    head = bytearray()
    for piece in pieces:
        head += piece
        if b"\n" in piece and _content(head).count(b"\n"):
            break
        if len(head) > _LONGEST_LINE:
            raise refuse(f"no line of JSON within {_LONGEST_LINE} bytes", "one object a line: jq -c .", bytes(head))
    line, _, rest = _content(head).partition(b"\n")
    item = _object(line, refuse)
    yield bytes(head)
    more = bool(rest.strip())
    for piece in pieces:
        more = more or bool(piece.strip())
        yield piece
    # At the end, where it is known that nothing follows: the file is published only after its last piece.
    if not more and _complains(item):
        raise refuse("an error message", "see what it asks for", line)


def _content(head: bytearray) -> bytes:
    return bytes(head).removeprefix(_BOM).lstrip()


def _object(line: bytes, refuse: Refuse) -> dict[str, Json]:
    import orjson

    if not line:
        raise refuse("an empty answer", "see whether the catalog is there", line)
    try:
        item = orjson.loads(line)
    except ValueError:
        item = None
    if isinstance(item, dict):
        return item
    if line.startswith(b"<"):
        raise refuse("an HTML or XML page", "open the address in a browser and look for the file's own", line)
    if line.startswith(b"["):
        raise refuse("a JSON array", "have it kept as JSON Lines: jq -c '.[]'", line)
    if line.startswith(b"{"):
        raise refuse("a JSON document over several lines", "have it kept as JSON Lines: jq -c .", line)
    raise refuse("no line of JSON", "name the address of a file of JSON objects, one a line", line)


def _complains(item: dict[str, Json]) -> bool:
    """Whether an object that stands alone is an error as servers describe it (RFC 9457 among them)."""
    keys = item.keys()
    described = bool(keys & {"message", "detail"}) and keys <= _COMPLAINTS
    return not item or bool(keys & {"error", "errors"}) or described


def _refusal(transfer: Transfer, reply: Reply, what: str, hint: str, body: bytes) -> SourceFailed:
    said = f": {transfer.excerpt(body)}" if body else ""
    if reply.url != transfer.url:
        said = f", after a redirect to {shown(reply.url)}{said}"
        hint = f"{hint}; where it is a page to sign in, set token_env (or user_env and password_env)"
    return SourceFailed(
        f"{transfer.origin} is no JSON Lines but {what}{said}", hint=f"{hint} (curl -sSL {quote(transfer.origin)})"
    )
