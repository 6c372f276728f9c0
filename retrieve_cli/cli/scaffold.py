"""`retrieve eval scaffold`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retrieve_cli.cli.options import Shared, Talk, option, shared
from retrieve_cli.contracts.terms import figures
from retrieve_cli.errors import UsageError, quoted

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.evaluation.votes import Judged
    from retrieve_cli.search.answer import Answer

KINDS = ("descriptions", "titles", "headings", "session")
_MANY = 50


@shared("text", "json")
def scaffold(
    out: Annotated[Path, option("--out", "Gold file to write.", "FILE")],
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="descriptions|titles|headings|session",
            help="Origin of the queries: first sentences of descriptions without the record's name, names, headings of"
            " sections, or your own queries and judgments.  [default: descriptions of catalogs, headings of documents]",
        ),
    ] = None,
    n: Annotated[int | None, option("-n", "Maximum number of queries.  [default: 50]", "N", min=1)] = None,
    seed: Annotated[int | None, option("--seed", "Seed of the random selection.  [default: 0]", "S")] = None,
    force: Annotated[bool, option("--force", "Overwrite an existing file.")] = False,
    *,
    shared: Shared,
) -> None:
    """Generate a gold file: queries from the index with one right answer each, or your own in a session.

    Generated queries use the records' own words and are easy: they show regressions, not the quality for real users.
    In a session, type a query, and on the next line the numbers or ids of the relevant results: 1 3, or with grades
    1:3 3:1; an empty line if no result is relevant. An empty query ends the session.
    """
    from retrieve_cli.config.values import unknown

    if from_ is not None and from_ not in KINDS:
        raise unknown(f"value {quoted(from_)} of --from", from_, KINDS)
    if from_ == "session" and seed is not None:
        raise UsageError("--seed selects generated queries, and a session has none", hint="omit --seed")
    if not out.parent.is_dir():
        raise UsageError(f"there is no folder {out.parent}", hint=f"mkdir -p {out.parent}")
    if out.is_dir():
        raise UsageError(f"{out} is a folder; --out takes a file", hint=f"--out {out / 'gold.jsonl'}")
    if out.exists() and not force:
        raise UsageError(f"{out} exists", hint="name another file, or overwrite it: --force")
    settings = shared.settings()
    if from_ == "session":
        kind, count, skipped = _session(shared, settings, out, most=n)
    else:
        kind, count, skipped = _drawn(shared, settings, out, from_, n=n or _MANY, seed=seed or 0)
    queries = figures.count(count, "query", "queries")
    said = f"wrote {queries} from {kind} to {out}; next: retrieve eval --gold {out}"
    shared.show({"path": str(out), "queries": count, "from": kind, "skipped": skipped}, [said])


def _drawn(
    shared: Shared, settings: Settings, out: Path, kind: str | None, *, n: int, seed: int
) -> tuple[str, int, Mapping[str, int]]:
    """Write generated queries; return their kind, their number, and the numbers of skipped texts by reason."""
    from retrieve_cli.assemble.indexes import open_indexes
    from retrieve_cli.evaluation.scaffold import MAKERS, default_kind, starter, write
    from retrieve_cli.storage.generation import open_generation

    with open_generation(shared.store) as generation:
        analyzer = open_indexes(generation, settings).analyzer
        chosen = next((each for each in MAKERS if each == kind), None) or default_kind(generation)
        made = starter(generation, analyzer, chosen, n=n, seed=seed)
    write(made.lines, out)
    if len(made.lines) < n:
        shared.talk.say(f"note: {figures.count(len(made.lines), 'fair query', 'fair queries')} instead of {n:,}")
    if made.skipped:
        shared.talk.say(f"skipped {chosen}: {made.reasons}")
    shared.talk.say("these queries use the records' own words: review them, and expect measures close to 1")
    return chosen, len(made.lines), made.skipped


def _session(shared: Shared, settings: Settings, out: Path, *, most: int | None) -> tuple[str, int, Mapping[str, int]]:
    """Answer and judge queries until an empty one; each judged query is saved before the next."""
    from retrieve_cli.contracts import Request
    from retrieve_cli.evaluation.votes import FORM, Judged
    from retrieve_cli.search.opened import Opened
    from retrieve_cli.search.searcher import Searcher

    opened = Opened.of(shared.store, settings)
    dialogue = _Dialogue(shared)
    judged = Judged(opened.generation, out)
    skipped: Counter[str] = Counter()
    try:
        while (most is None or len(judged) < most) and (text := dialogue.hear("query")):
            answer = Searcher(opened).answer([Request(text)])[0]
            for notice in (*answer.notices, *filter(None, [answer.stale])):
                dialogue.say(f"note: {notice}")
            dialogue.show(answer)
            grades = dialogue.judgment(judged, [str(result.record["id"]) for result in answer.results])
            if grades is None:
                skipped["not judged"] += 1
            elif not judged.keep(text, grades):
                skipped["nothing right"] += 1
    except (KeyboardInterrupt, UsageError):
        if len(judged):
            dialogue.say(f"{figures.count(len(judged), 'judged query', 'judged queries')} saved to {out}")
        raise
    if not len(judged):
        reasons = "".join(f", {count} {reason}" for reason, count in skipped.items())
        raise UsageError(f"no query was judged{reasons}: {out} is not written", hint=FORM)
    return "session", len(judged), dict(skipped)


class _Dialogue:
    """Dialogue of a session: lines from stdin, answers on stderr; on a terminal a faulty line is asked for again."""

    def __init__(self, shared: Shared) -> None:
        if sys.stdin is None:
            raise UsageError("a session reads stdin, which is closed", hint="run it in a terminal")
        self._lines: Iterator[bytes] = iter(sys.stdin.buffer.readline, b"")
        self._number = 0
        self._terminal = sys.stdin.isatty()
        # On a terminal the user must see the answers, even with --quiet or --json.
        self.say = Talk().say if self._terminal else shared.talk.say

    def hear(self, prompt: str) -> str | None:
        """Return the next line without surrounding blanks; None at the end.

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
        """Show the results with numbers: name, id, and a snippet."""
        from retrieve_cli.output.snippet import ROOM, snippet

        for number, result in enumerate(answer.results, 1):
            self.say(f"{number:3}  {result.record['name']}  [{result.record['id']}]")
            self.say(f"     {snippet(answer, result).cut(ROOM).text}")
        if not answer.results:
            self.say("no results; you may still name the id of a relevant record")

    def judgment(self, judged: Judged, shown: Sequence[str]) -> dict[str, int] | None:
        """Return the grades of the next line; None at the end.

        Raises:
            UsageError: the line has another form, and stdin is not a terminal.
        """
        while (line := self.hear("relevant")) is not None:
            try:
                return judged.grades(line, shown)
            except UsageError as error:
                if not self._terminal:
                    raise UsageError(f"line {self._number} of stdin: {error.message}", hint=error.hint) from error
                self.say(f"{error.message}: {error.hint}")
        return None
