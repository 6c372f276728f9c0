"""Checks of every command, whatever its input. Each check yields the faults."""

from __future__ import annotations

import csv
import io
import json
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

CODES = frozenset({*range(11), 130, 143})
FAILURES = frozenset({1, 2, 4, 5, 6, 7})
"""Codes that come with a sentence on stderr."""
SILENT = {("doctor",): {1}, ("inspect", "verify"): {5}, ("sync",): {1, 5}}
"""Codes that a command's own report on stdout explains."""
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]")
CSV_RAW = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_INSIDE = ("this is a bug", "Traceback (most recent call last)", "Fatal Python error", "Exception ignored in",
           "core dumped")  # fmt: skip
_WARNING = re.compile(r"^\S*:\d+: \w*Warning: ", re.MULTILINE)
_FORMULA = re.compile(r"[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?")


OUTPUT = 10 << 20
"""Bytes on stdout, or on stderr."""
csv.field_size_limit(OUTPUT)


@dataclass(frozen=True)
class Ended:
    """Outcome of a command."""

    command: tuple[str, ...]
    code: int
    """Its exit code, negative for the signal that ended it."""
    out: bytes
    err: bytes
    over: bool = False
    """True if it was killed because it did not end."""

    @property
    def tail(self) -> str:
        return self.err[-1500:].decode("utf-8", "backslashreplace")


@dataclass(frozen=True)
class Finding:
    """A fault."""

    kind: str
    what: str
    command: tuple[str, ...] = ()
    detail: str = ""
    """Text that differs between equal findings: the text around it, the end of stderr."""


def command_findings(ended: Ended) -> Iterator[Finding]:
    """Yield what is wrong with the end of a command."""
    for kind, what, detail in _wrong(ended):
        yield Finding(kind, what, ended.command, f"{detail}\n{ended.tail}".strip())


Wrong = Iterator[tuple[str, str, str]]


def _wrong(ended: Ended) -> Wrong:
    err = ended.err.decode("utf-8", "replace")
    if ended.over:
        yield "limit", f"no end of {name_of(ended.command)}", ""
        return
    if ended.code < 0:
        name = signal.Signals(-ended.code).name
        kind = "cpu" if name in ("SIGXCPU", "SIGKILL") else "signal"
        yield kind, f"{name_of(ended.command)} was ended by {name}", ""
        return
    if ended.code not in CODES:
        yield "code", f"exit code {ended.code}", ""
    if '"memory"' in err or "error: out of memory" in err:
        yield "memory", f"more memory than there is for {name_of(ended.command)}", ""
    if max(len(ended.out), len(ended.err)) > OUTPUT:
        yield "output", f"more than {OUTPUT >> 20} MB of output", ""
    inside = [*_inside(err), *_inside(ended.out.decode("utf-8", "replace"))]
    yield from inside
    yield from _terminal(ended)
    yield from () if inside else _spoken(ended, err)
    if ended.out and not ended.out.startswith(b"Usage: "):
        yield from _formed(ended)


def _inside(text: str) -> Wrong:
    for word in _INSIDE:
        if word in text:
            lines = [line for line in text.splitlines() if line.strip() and word not in line]
            shown = [line for line in lines if line.startswith("error")] or _messages(text) or lines[-1:]
            yield "internal", f"{word}: {shown[0][:200] if shown else ''}", ""
            return
    if found := _WARNING.search(text):
        yield "warning", text[found.start() : found.end() + 120].splitlines()[0], ""


def _messages(text: str) -> list[str]:
    return re.findall(r'"kind": ?"internal", ?"message": ?"(.*?)", ?"hint"', text)


def _terminal(ended: Ended) -> Wrong:
    for stream, content in (("stdout", ended.out), ("stderr", ended.err)):
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            yield "encoding", f"{stream} is not UTF-8", ""
            continue
        pattern = CSV_RAW if stream == "stdout" and format_of(ended.command) == "csv" else RAW
        if found := pattern.search(text):
            around = text[max(found.start() - 20, 0) : found.end() + 10]
            where = f"{stream} of {name_of(ended.command)} {format_of(ended.command)}"
            yield "terminal", f"{_class(found[0])} on {where}", repr(around)


def _class(char: str) -> str:
    return "C0" if char < " " or char == "\x7f" else "C1" if char < "\xa0" else "bidi"


def _spoken(ended: Ended, err: str) -> Wrong:
    """A failure says what was wrong, in the form that was asked for."""
    if ended.code not in FAILURES or any(ended.command[: len(c)] == c and ended.code in e for c, e in SILENT.items()):
        return
    if format_of(ended.command) in ("json", "jsonl"):
        lines = [line for line in err.splitlines() if line.startswith('{"error"')]
        try:
            error = _strict(lines[-1])["error"]
            if error["code"] != ended.code or not error["message"] or "kind" not in error or "hint" not in error:
                yield "form", "the error does not fit the code", f"{ended.code}"
        except (ValueError, KeyError, IndexError, TypeError):
            yield "form", f"no error in JSON beside the code of {name_of(ended.command)}", f"{ended.code}"
    elif not re.search(r"^error: \S", err, re.MULTILINE):
        yield "form", f"no line of error beside the code of {name_of(ended.command)}", f"{ended.code}"


def _formed(ended: Ended) -> Wrong:
    """Check that the output can be parsed in the requested format."""
    text, format_ = ended.out.decode("utf-8", "replace"), format_of(ended.command)
    if "-l" in ended.command[: ended.command.index("--") if "--" in ended.command else None]:
        return  # ids, one a line, whatever else is asked for
    try:
        if format_ == "json" and ended.command[0] != "query":
            for line in text.splitlines() if ended.command[0] in ("sync", "build") else [text]:
                _strict(line)
        elif format_ in ("json", "jsonl"):
            batch = format_ == "jsonl" or not text.startswith("{\n")  # one indented object is the answer to one query
            for line in text.splitlines() if batch else [text]:
                _strict(line)
        elif format_ == "csv":
            cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
            if bad := next((c for c in cells if _FORMULA.match(c) and not _NUMBER.fullmatch(c)), None):
                yield "formula", "a cell begins as a formula", repr(bad[:60])
    except (ValueError, csv.Error) as error:
        yield "form", f"{name_of(ended.command)} --format {format_} cannot be read back", str(error)


def format_of(command: tuple[str, ...]) -> str:
    """Return the format that a command line asks for."""
    if "--json" in command:
        return "json"
    places = [number for number, word in enumerate(command[:-1]) if word == "--format"]
    joined = [word.partition("=")[2] for word in command if word.startswith("--format=")]
    return command[places[-1] + 1] if places else joined[-1] if joined else "text"


def name_of(command: tuple[str, ...]) -> str:
    """Return the name of the command of a command line."""
    return " ".join(command[:2]) if command[:1] == ("inspect",) else command[0] if command else ""


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _strict(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse)
