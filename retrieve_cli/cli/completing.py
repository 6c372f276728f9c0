"""Candidates for the word that a shell is about to complete: the hidden command `retrieve __complete`.

Each press of TAB starts a process. Names of commands are known without the parser of the command line; flags
and their values come from the command itself, and ids and filters of the current index; no candidate shows
more than the command itself would find. On any failure there are no candidates and no messages.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from retrieve_cli.cli.names import ALIASES, COMMANDS

if TYPE_CHECKING:
    from typer._click import Command

_MOST = 200
"""Candidates of one word."""
_PLAIN = re.compile(r"[^\w@%+=:,./#-]")
"""Characters that a shell may take for something else."""
_CHOICES = re.compile(r"\[?([\w.-]+(?:\|[\w.-]+)+)\]?")
_BREAKS = " \t\n\"'><=;|&(:"


def run(arguments: Sequence[str]) -> None:
    """Print the candidates, one per line: of `bash LINE [BREAKS]`, or `zsh WORD...`, `fish WORD...`."""
    with suppress(Exception, SystemExit):
        shell, *given = arguments
        if shell == "bash":
            words, quote = split(given[0])
            shown = for_bash(candidates(words), words[-1], quote, breaks=given[1] if len(given) > 1 else _BREAKS)
        else:
            shown = candidates(given)
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
        sys.stdout.write("".join(f"{word}\n" for word in shown))
        sys.stdout.flush()


def split(line: str) -> tuple[list[str], str]:
    """Return the words of a line of bash behind its first, the last one unfinished, and the quotation mark that is
    still open, if one is."""
    words: list[str] = []
    word, quote, escaped = "", "", False
    for char in line:
        if escaped:
            word, escaped = word + char, False
        elif char == "\\" and quote != "'":
            escaped = True
        elif quote:
            word, quote = (word, "") if char == quote else (word + char, quote)
        elif char in "\"'":
            quote = char
        elif char.isspace():
            words, word = [*words, word] if word else words, ""
        else:
            word += char
    return [*words, word][1:] or [""], quote


def for_bash(given: Sequence[str], word: str, quote: str, *, breaks: str) -> list[str]:
    """Return candidates as bash expects them: without the text up to the last character that breaks words, which bash
    keeps, and with a backslash before special characters."""
    if quote:
        return list(given)
    start = max((place + 1 for place, char in enumerate(word) if char in breaks), default=0)
    return [_PLAIN.sub(lambda match: f"\\{match[0]}", candidate[start:]) for candidate in given]


def candidates(words: Sequence[str]) -> list[str]:
    """Return the completions of the last word behind `retrieve`, in order."""
    word = words[-1]
    if len(words) == 1:
        names = ("--help", "--version") if word.startswith("-") else (*COMMANDS, *(ALIASES if word else ()))
        return _starting(names, word)
    name, *others = words
    if name == "help":
        return _starting(COMMANDS, word) if len(words) == 2 else []
    typed = Typed.of(ALIASES.get(name, name), others)
    texts = [text for text in islice(_for(typed), _MOST) if text.isprintable()]
    return list(dict.fromkeys(texts))


class Typed(NamedTuple):
    """A command line of which the last word is unfinished."""

    command: str
    """The command, with its own if it has some: `inspect record`."""
    parts: Mapping[str, Command]
    """The commands below it."""
    flags: Mapping[str, Any]
    """Its options by flag."""
    positional: Sequence[str]
    """The arguments that are no options, before the last word."""
    given: Mapping[str, str]
    """Values of options, by flag; of one that is repeated, the last."""
    option: Any | None
    """The option whose value the last word is."""
    before: str
    """The part of the last word before that value: `--filter=`."""
    word: str
    """The unfinished value or word."""

    @classmethod
    def of(cls, name: str, words: Sequence[str]) -> Typed:
        """Read words as the command's parser does."""
        from retrieve_cli.cli.main import program

        command: Any = program().commands[name].load()  # type: ignore[attr-defined]
        *done, word = words
        if (parts := getattr(command, "commands", None)) is not None and done and done[0] in parts:
            command, name, done, parts = parts[done[0]], f"{name} {done[0]}", done[1:], None
        flags = {flag: option for option in command.params for flag in (*option.opts, *option.secondary_opts)}
        flags = {flag: option for flag, option in flags.items() if flag.startswith("-")}
        positional: list[str] = []
        given: dict[str, str] = {}
        waiting = ""
        for text in done:
            flag, equals, value = text.partition("=")
            if waiting:
                given[waiting], waiting = text, ""
            elif flag not in flags:
                positional.append(text)
            elif equals:
                given[flag] = value
            elif not flags[flag].is_flag:
                waiting = flag
        flag, equals, value = word.partition("=")
        if not waiting and equals and flag in flags and not flags[flag].is_flag:
            return cls(name, parts or {}, flags, positional, given, flags[flag], f"{flag}=", value)
        return cls(name, parts or {}, flags, positional, given, flags.get(waiting), "", word)

    @property
    def artifacts(self) -> Path:
        return Path(self.given.get("--artifacts", "artifacts")).expanduser()


Source = Callable[[Typed], Iterable[str]]
"""Candidates for the unfinished word of a command line."""


def _for(typed: Typed) -> Iterator[str]:
    word = typed.word
    if typed.option is not None:
        values: Source = _VALUES.get(typed.option.opts[0], _choices_of)
        yield from (f"{typed.before}{value}" for value in values(typed))
    elif word.startswith("-"):
        yield from _starting([flag for flag in typed.flags if flag.startswith("--")], word)
        yield from _starting(["--help"], word)
    elif typed.parts:
        yield from _starting(typed.parts, word)
    else:
        arguments = _ARGUMENTS.get(typed.command)
        yield from () if arguments is None else arguments(typed)


def _starting(names: Sequence[str] | Mapping[str, object], word: str) -> list[str]:
    return [name for name in names if name.startswith(word)]


def _choices_of(typed: Typed) -> Sequence[str]:
    listed = _CHOICES.fullmatch(str(typed.option.metavar)) if typed.option is not None else None
    return _starting(listed[1].split("|"), typed.word) if listed else ()


def _retrievers(typed: Typed) -> Sequence[str]:
    from retrieve_cli.config.plugins import answering_names

    before, comma, last = typed.word.rpartition(",")
    return [f"{before}{comma}{name}" for name in _starting(answering_names(), last)]


def _actions_and_keys(typed: Typed) -> Sequence[str]:
    """Of `config`: what to do, the key, and the values of a key that has choices."""
    from retrieve_cli.cli.config import ACTIONS

    if not typed.positional:
        return _starting(ACTIONS, typed.word)
    from retrieve_cli.config.values import choices_of, every_key

    if len(typed.positional) == 1:
        keys = list(every_key())
        sections = () if typed.positional[0] == "set" else dict.fromkeys(key.partition(".")[0] for key in keys)
        return _starting((*sections, *keys), typed.word) if typed.positional[0] != "path" else ()
    return _starting(choices_of(typed.positional[1]), typed.word)


def _key_ids(typed: Typed) -> Sequence[str]:
    from retrieve_cli.server.auth.keys import KeyFile

    return _starting([key.id for key in KeyFile(typed.artifacts).stored() if key.revoked is None], typed.word)


def _scopes(typed: Typed) -> Sequence[str]:
    from retrieve_cli.server.auth.scopes import SCOPES

    before, comma, last = typed.word.rpartition(",")
    return [f"{before}{comma}{name}" for name in _starting(SCOPES, last)]


def _models(typed: Typed) -> Sequence[str]:
    """The stages of a query that have a model on a device here."""
    from retrieve_cli.config.values import every_key

    keys = set(every_key())
    stages = [key.removesuffix(".model") for key in every_key() if key.endswith(".model")]
    return [] if typed.positional else _starting([name for name in stages if f"{name}.device" in keys], typed.word)


def _generations(typed: Typed) -> Sequence[str]:
    names = sorted(path.name for path in islice((typed.artifacts / "generations").iterdir(), 10 * _MOST))
    return [name for name in _starting(names, typed.word) if re.fullmatch(r"[0-9a-f]{12}", name)]


def _runs(typed: Typed) -> Sequence[str]:
    paths = islice((typed.artifacts / "runs").iterdir(), 10 * _MOST)
    return _starting(sorted(path.name for path in paths if path.is_dir()), typed.word)


def _first(source: Source, place: int = 0) -> Source:
    """Candidates for one positional argument only."""
    return lambda typed: source(typed) if len(typed.positional) == place else ()


def _ids(typed: Typed) -> Iterator[str]:
    from retrieve_cli.cli import completing_index as index

    return index.ids(typed.artifacts, typed.word, index.CompletionScope.of(typed.command, typed.given))


def _conditions(typed: Typed) -> Iterator[str]:
    from retrieve_cli.cli import completing_index as index

    return index.conditions(typed.artifacts, typed.word, index.CompletionScope.of(typed.command, typed.given))


_VALUES: Mapping[str, Source] = {
    "--filter": _conditions,
    "--facet": lambda typed: (text.removesuffix("=") for text in _conditions(typed) if text.endswith("=")),
    "--boost": lambda typed: (text if text.endswith("=") else f"{text}:" for text in _conditions(typed)),
    "--doc-id": _ids,
    "--retrievers": _retrievers,
    "--scope": _scopes,
}
"""Options whose values are not listed in their help, by flag."""
_ARGUMENTS: Mapping[str, Source] = {
    "inspect record": _first(_ids),
    "inspect chunk": _first(lambda typed: (f"{name}#0" for name in _ids(typed))),
    "inspect graph": _first(_ids),
    "inspect why": _first(_ids, 1),
    "inspect run": _first(_runs),
    "inspect diff": _generations,
    "sync": _first(_generations),
    "config": _actions_and_keys,
    "completion": _first(lambda typed: _starting(("bash", "zsh", "fish"), typed.word)),
    "keys revoke": _first(_key_ids),
    "models pull": _models,
    "models verify": _models,
}
"""Arguments that are no options, by command."""
