"""Failures as the user reads them: a code, a kind, a sentence and the next step."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.cli.options import nearest
from retrieve_cli.errors import Exit, RetrieveError, Terminated, cut

if TYPE_CHECKING:
    from retrieve_cli.contracts import Json


class Failure(NamedTuple):
    """One failure, printed as `error:` and `hint:` lines or as a JSON object."""

    code: int
    kind: str
    message: str
    hint: str

    def to_json(self) -> dict[str, Json]:
        return self._asdict()


def failure_of(error: BaseException) -> Failure:
    """Return the failure to report for an error that ended a command."""
    if isinstance(error, RuntimeError) and isinstance(error.__cause__, KeyboardInterrupt | Terminated):
        error = error.__cause__  # an interruption while a class is defined: Python 3.11 raises it within __set_name__
    if isinstance(error, RetrieveError):
        return Failure(int(error.code), error.kind, error.message, error.hint)
    same = "the current index is unchanged"
    if isinstance(error, KeyboardInterrupt):
        return Failure(int(Exit.INTERRUPTED), "interrupted", _interrupted("interrupted", error), same)
    if isinstance(error, Terminated):
        return Failure(int(Exit.TERMINATED), "terminated", _interrupted("terminated", error), same)
    if isinstance(error, MemoryError):
        return Failure(int(Exit.ERROR), "memory", "out of memory", f"{same}; try a smaller catalog")
    if isinstance(error, OSError):
        message = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
        hint = f"free disk space or fix the permissions, and run it again; {same}"
        return Failure(int(Exit.ERROR), "system", message, hint)
    if isinstance(error, Exception) and from_parser(error):
        # Not what the parser finds similar: that leads astray.
        message = error.message if hasattr(error, "possibilities") else error.format_message()  # type: ignore[attr-defined]
        return Failure(int(Exit.USAGE), "usage", cut(str(message)), nearest(error))
    hint = "this is a bug in retrieve; -v shows where it happened"
    return Failure(int(Exit.ERROR), "internal", f"{type(error).__name__}: {error}", hint)


def _interrupted(what: str, error: BaseException) -> str:
    """Return the sentence on an interruption, with the notes of the work that it ended: how much of it is kept."""
    notes: list[str] = getattr(error, "__notes__", [])
    return ": ".join([what, *(["; ".join(notes)] if notes else [])])


def from_parser(error: BaseException) -> bool:
    """Return True for a usage error of the command line parser."""
    return hasattr(error, "format_message") and getattr(error, "message", None) is not None
