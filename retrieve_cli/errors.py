"""Failures that a user can act on.

    RetrieveError               1   any other failure
    ├── SourceFailed            1   a source could not be read, or lost too much at once: nothing was published
    ├── ModelFailed             1   a model, its server or a plug-in returned an unusable answer
    ├── UsageError              2   an unknown flag, key or value; a file that the command does not accept
    │   ├── Forbidden           2   a request for records of another tenant than its credential's
    │   ├── NotFound            2   an id that does not exist for the caller: unknown, or of another tenant
    │   └── Conflict            2   a change that contradicts the index, such as removing a record of a catalog
    ├── IndexMissing            4   no index there yet
    ├── IndexCorrupt            5   the index is damaged or its parts disagree
    ├── Unavailable             6   a model or an optional package is missing, or a GPU was required
    ├── Locked                  7   another writer holds the lock
    ├── NotYet                  1   a change that the index does not include yet: ask again later
    └── Stale                  10   the sources have changed, and the configuration forbids stale answers

Raised anywhere, caught once, in `cli/`, and printed as `error:` and `hint:`. The other codes of the contract
(3 no result, 8 partial, 9 gate, 10 stale hits) are outcomes of commands that ran, not failures; `Exit` lists them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from errno import EDQUOT, EFBIG, ENOSPC
from pathlib import Path
from reprlib import Repr
from typing import ClassVar
from unicodedata import category


class Exit(IntEnum):
    """Exit codes of the contract."""

    OK = 0
    ERROR = 1
    USAGE = 2
    NO_RESULT = 3
    INDEX_MISSING = 4
    INDEX_CORRUPT = 5
    UNAVAILABLE = 6
    LOCKED = 7
    PARTIAL = 8
    GATE_FAILED = 9
    STALE = 10
    INTERRUPTED = 130
    TERMINATED = 143


_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0").union(map(chr, range(0xE0100, 0xE01F0)))
"""Letters, marks and symbols that show nothing: fillers, joiners and the supplementary variation selectors."""


def printable(text: str, allowed: str = "") -> str:
    """Return foreign text made safe for a terminal, a prompt or a log.

    Letters, marks, numbers, punctuation, symbols and the plain space pass, and the control characters in `allowed`.
    Other spaces become a plain one, soft hyphens a hyphen. A joiner passes between two characters outside of ASCII, as
    Persian, Indic scripts and emoji need it. Everything else becomes U+FFFD: controls, line and paragraph ends, format
    characters (bidirectional controls, zero-width characters, tags), private, unassigned and lone surrogate code
    points, and invisible letters and marks.
    """
    if text.isascii() and text.isprintable():
        return text
    odd = {ord(char): _stand_in(char) for char in _unsafe(text) if char not in allowed}
    if odd.keys() & _JOINERS:
        text = _NOT_JOINING.sub("\ufffd", text)
        odd = {code: each for code, each in odd.items() if code not in _JOINERS}
    return text.translate(odd) if odd else text


_JOINERS = {0x200C, 0x200D}
_NOT_JOINING = re.compile("(?<![^\0-\x7f\u200c\u200d])[\u200c\u200d]|[\u200c\u200d](?![^\0-\x7f\u200c\u200d])")


def _stand_in(char: str) -> str:
    return "-" if char == "\xad" else " " if category(char) == "Zs" else "\ufffd"


def escaped_json(text: str) -> str:
    """Return JSON with the characters that `printable` replaces as `\\uXXXX`: the values stay the same."""
    if text.isascii() and "\x7f" not in text:
        return text
    odd = {ord(char): _escape(char) for char in _unsafe(text) if char > "~" and category(char) != "Zs"}
    return text.translate(odd) if odd else text


def _unsafe(text: str) -> list[str]:
    # `isprintable` is the allow-list: it rejects the categories C and Z but for the plain space.
    return [char for char in set(text) if not char.isprintable() or char in _INVISIBLE]


def _escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def shortened(text: str, most: int = 80) -> str:
    """Return the text as one line of at most `most` characters."""
    line = " ".join(text[: most * 4].split())
    return line if len(line) <= most and len(text) <= most * 4 else line[: most - 1] + "…"


def quoted(value: object) -> str:
    """Return the `repr` of a value for an error, shortened to 80 characters."""
    text = _REPR.repr(value)
    return text if len(text) <= _QUOTED else text[: _QUOTED - 1] + "…"


_QUOTED = 80
_REPR = Repr()
_REPR.maxlevel, _REPR.maxstring, _REPR.maxother, _REPR.maxlong = 3, 60, 60, 60


def cut(sentence: str) -> str:
    """Return a sentence shortened to a length for terminals, including its quotes."""
    return sentence if len(sentence) <= _SENTENCE else sentence[: _SENTENCE - 1] + "…"


_SENTENCE = 2000


class RetrieveError(Exception):
    """A failure with a sentence about it and, in `hint`, the next command or edit."""

    code: ClassVar[Exit] = Exit.ERROR
    kind: ClassVar[str] = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(cut(message))
        self.message = cut(message)
        self.hint = cut(hint)


class UsageError(RetrieveError):
    """Invalid input: a flag, a key, a value, or a file of the wrong kind."""

    code = Exit.USAGE
    kind = "usage"


class Forbidden(UsageError):
    """A request for the records of another tenant than the one of its credential."""

    kind = "forbidden"


class NotFound(UsageError):
    """An id that does not exist for the caller: unknown, or of another tenant, in the same words."""

    kind = "not_found"


class SourceFailed(RetrieveError):
    """A source that does not answer, answers something else, or lost too much at once. The index is unchanged."""

    kind = "source_failed"


class BadDocument(RetrieveError):
    """A document that cannot be read. It is rejected, with the message and the hint as the reason."""

    kind = "bad_document"


class NotADocument(BadDocument):
    """A file without own text, such as a catalog or a page that only redirects to another one. In a folder it is
    skipped with a notice: it is not an error."""


class ModelFailed(RetrieveError):
    """An unusable answer of a model, its server or a plug-in: no numbers, too few, or an error page."""

    kind = "model_failed"


class TextFailed(ModelFailed):
    """A text that ends every process that encodes it."""

    def __init__(self, message: str, *, text: str) -> None:
        super().__init__(message)
        self.text = text


class Conflict(UsageError):
    """A change that contradicts what there is."""

    kind = "conflict"


class NotYet(RetrieveError):
    """A change that was asked for by its number and is not in the index yet."""

    kind = "not_yet"


class IndexMissing(RetrieveError):
    """No index in the artifacts folder yet."""

    code = Exit.INDEX_MISSING
    kind = "index_missing"


class IndexCorrupt(RetrieveError):
    """An artifact that is damaged, missing, from a newer schema, or does not belong to its manifest."""

    code = Exit.INDEX_CORRUPT
    kind = "index_corrupt"


class Unavailable(RetrieveError):
    """A requested model, package or device that is not on this machine."""

    code = Exit.UNAVAILABLE
    kind = "unavailable"


class NotConfigured(Unavailable):
    """A part that a request names and that this index or configuration does not have: the request will always fail."""


STEP_FAILURES = (Unavailable, ModelFailed)
"""Failures of one step of a query. An optional step is skipped, and the answer gives the reason."""


class Locked(RetrieveError):
    """Another writer is active in the artifacts folder."""

    code = Exit.LOCKED
    kind = "locked"


class Stale(RetrieveError):
    """Sources that changed since the build, while the configuration forbids stale answers."""

    code = Exit.STALE
    kind = "stale"


class Terminated(BaseException):
    """A request to end this process (SIGTERM): it cleans up as after an interruption."""


class NoSpace(RetrieveError):
    """A full disk, or a limit of the system on what may be written."""

    kind = "no_space"


SPACE: Mapping[int, str] = {
    ENOSPC: "free disk space",
    EDQUOT: "free disk space, or have the quota raised",
    EFBIG: "raise the limit on the size of files (ulimit -f)",
}
"""Remedies by the number of an error of the system that is about space."""


def unwritable(path: Path | str, error: OSError) -> RetrieveError:
    """Return the error for a place that cannot be written to."""
    kind = NoSpace if error.errno in SPACE else RetrieveError
    hint = f"{SPACE.get(error.errno or 0, 'check its permissions')}, or name another folder: --artifacts DIR"
    return kind(f"cannot write to {path}: {error.strerror}", hint=hint)


_READ = 8
"""Times the length of the line that are read of the text."""


def one_line(text: str, most: int) -> str:
    """Return a text on one line of at most `most` characters, without control characters, cut behind a word."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text[: _READ * most]).split())
    if len(line) <= most:
        return line
    cut = line[: most - 1]
    return (cut.rpartition(" ")[0] or cut) + "…"
