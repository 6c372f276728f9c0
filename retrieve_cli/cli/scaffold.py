"""`retrieve eval scaffold`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retrieve_cli.cli.options import Shared, shared
from retrieve_cli.errors import UsageError, printable, quoted

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.experiments.session import Judged
    from retrieve_cli.search.answer import Answer

KINDS = ("descriptions", "titles", "headings", "session")
_MANY = 50


@shared("text", "json")
def scaffold(
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The gold file to write.")],
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="descriptions|titles|headings|session",
            help="Of first sentences of descriptions without the record's name, of names as they stand, of headings of"
            " sections, or what you ask and judge.  [default: descriptions in a catalog, headings in documents]",
        ),
    ] = None,
    n: Annotated[
        int | None, typer.Option("-n", metavar="N", min=1, help="At most so many queries.  [default: 50]")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", metavar="S", help="Another draw.  [default: 0]")] = None,
    force: Annotated[bool, typer.Option("--force", help="Put it in the place of a file that is there.")] = False,
    *,
    shared: Shared,
) -> None:
    """Make a starter gold file: queries drawn from the live index, with one right answer each, or a session of yours.

    Queries made of the records' own words are easy to answer: they show what breaks, not how well people are served.
    In a session a line is a query and the next one the numbers (or ids) of what is right for it: 1 3, or with grades
    1:3 3:1; an empty one where nothing is. An empty query ends it.
    """
    from retrieve_cli.config.values import unknown
    from retrieve_cli.output.formats import dump

    if from_ is not None and from_ not in KINDS:
        raise unknown(f"value {quoted(from_)} of --from", from_, KINDS)
    if from_ == "session" and seed is not None:
        raise UsageError("--seed is for queries that are drawn; a session draws none", hint="leave --seed out")
    _check_place(out, force=force)
    settings = shared.settings()
    if from_ == "session":
        kind, count, skipped = _session(shared, settings, out, most=n)
    else:
        kind, count, skipped = _drawn(shared, settings, out, from_, n=n or _MANY, seed=seed or 0)
    if shared.format == "json":
        print(dump({"path": str(out), "queries": count, "from": kind, "skipped": skipped}))
    else:
        print(printable(f"{count} queries from {kind} are in {out}: retrieve eval --gold {out}"))


def _check_place(out: Path, *, force: bool) -> None:
    """Raises: UsageError where nothing may be written to `out`."""
    if not out.parent.is_dir():
        raise UsageError(f"there is no folder {out.parent}", hint=f"mkdir -p {out.parent}")
    if out.is_dir():
        raise UsageError(f"{out} is a folder; --out takes a file", hint=f"--out {out / 'gold.jsonl'}")
    if out.exists() and not force:
        raise UsageError(f"{out} is there already", hint="name another file, or replace it: --force")


def _drawn(
    shared: Shared, settings: Settings, out: Path, kind: str | None, *, n: int, seed: int
) -> tuple[str, int, Mapping[str, int]]:
    """Writes queries drawn from the live index; their kind, how many, and by reason how many texts became none."""
    from retrieve_cli.assemble.indexes import open_indexes
    from retrieve_cli.experiments.gold_lines import write
    from retrieve_cli.experiments.scaffold import MAKERS, default_kind, starter
    from retrieve_cli.storage.generation import open_generation

    with open_generation(shared.store) as generation:
        analyzer = open_indexes(generation, settings).analyzer
        chosen = next((each for each in MAKERS if each == kind), None) or default_kind(generation)
        made = starter(generation, analyzer, chosen, n=n, seed=seed)
    write(made.lines, out)
    if len(made.lines) < n:
        shared.talk.say(f"note: there are {len(made.lines)} fair queries, not {n}")
    if made.skipped:
        shared.talk.say(f"left out of the {chosen}: {made.reasons}")
    shared.talk.say("these are made of the records' own words: look them over, and expect figures close to 1")
    return chosen, len(made.lines), made.skipped


# ------------------------------------------------------------------------------------------------ sessions


def _session(shared: Shared, settings: Settings, out: Path, *, most: int | None) -> tuple[str, int, Mapping[str, int]]:
    """Asks and judges until there is no query; each judged one is in the file before the next is asked."""
    from retrieve_cli.contracts import Request
    from retrieve_cli.experiments.session import FORM, Judged
    from retrieve_cli.search.searcher import Searcher

    searcher = Searcher(shared.store, settings)
    dialogue = _Dialogue(shared)
    judged = Judged(searcher.generation, out)
    skipped: Counter[str] = Counter()
    try:
        while (most is None or len(judged) < most) and (text := dialogue.hear("query")):
            answer = searcher.answer([Request(text)])[0]
            _say_notices(answer.notices, dialogue)
            dialogue.show(answer)
            grades = dialogue.judgment(judged, [str(result.record["id"]) for result in answer.results])
            if grades is None:
                skipped["not judged"] += 1
            elif not judged.keep(text, grades):
                skipped["nothing right"] += 1
    except (KeyboardInterrupt, UsageError):
        if len(judged):
            dialogue.say(f"{len(judged)} judged queries are in {out}")
        raise
    if not len(judged):
        said = "".join(f", {count} {reason}" for reason, count in skipped.items())
        raise UsageError(f"no query was judged{said}: {out} is not written", hint=FORM)
    return "session", len(judged), dict(skipped)


def _say_notices(notices: Sequence[str], dialogue: _Dialogue) -> None:
    for notice in notices:
        dialogue.say(f"note: {notice}")


class _Dialogue:
    """Hears lines on stdin and shows answers on stderr; asks again where somebody is there to answer."""

    def __init__(self, shared: Shared) -> None:
        if sys.stdin is None:
            raise UsageError("stdin is closed, and a session is read from it", hint="run it in a terminal")
        self._lines: Iterator[bytes] = iter(sys.stdin.buffer.readline, b"")
        self._number = 0
        self._terminal = sys.stdin.isatty()
        # Whoever sits before it must see the answers, whatever is printed on stdout in the end.
        self.say = _to_stderr if self._terminal else shared.talk.say

    def hear(self, prompt: str) -> str | None:
        """The next line without the blanks around it; None where there is none.

        Raises:
            UsageError: it is not UTF-8.
        """
        if self._terminal:
            print(f"{prompt}> ", end="", file=sys.stderr, flush=True)
        raw = next(self._lines, None)
        if raw is None:
            return None
        self._number += 1
        try:
            return raw.decode("utf-8-sig" if self._number == 1 else "utf-8").strip()
        except UnicodeDecodeError as error:
            raise UsageError(f"line {self._number} of stdin is not UTF-8", hint="convert it with iconv") from error

    def show(self, answer: Answer) -> None:
        """The results, numbered: name, id, and a line of what was found."""
        from retrieve_cli.output.snippet import ROOM, snippet

        for number, result in enumerate(answer.results, 1):
            self.say(f"{number:3}  {result.record['name']}  [{result.record['id']}]")
            self.say(f"     {snippet(answer, result).cut(ROOM).text}")
        if not answer.results:
            self.say("nothing was found; an id may still be right")

    def judgment(self, judged: Judged, shown: Sequence[str]) -> dict[str, int] | None:
        """The grades that the next line gives; None where there is none.

        Raises:
            UsageError: the line gives no grades, and nobody is there to mend it.
        """
        while (line := self.hear("right")) is not None:
            try:
                return judged.grades(line, shown)
            except UsageError as error:
                if not self._terminal:
                    raise UsageError(f"line {self._number} of stdin: {error.message}", hint=error.hint) from error
                self.say(f"{error.message}: {error.hint}")
        return None


def _to_stderr(sentence: str) -> None:
    print(printable(sentence), file=sys.stderr)
