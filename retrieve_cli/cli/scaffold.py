"""`retrieve eval scaffold`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retrieve_cli.cli.options import Shared, option, shared
from retrieve_cli.contracts.terms import figures
from retrieve_cli.errors import UsageError, quoted

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings

KINDS = ("descriptions", "titles", "headings")


@shared("text", "json")
def scaffold(
    out: Annotated[Path, option("--out", "Gold file to write.", "FILE")],
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="descriptions|titles|headings",
            help="Origin of the queries: first sentences of descriptions without the record's name, names, or headings"
            " of sections.  [default: descriptions of catalogs, headings of documents]",
        ),
    ] = None,
    n: Annotated[int, option("-n --limit", "Maximum number of queries.", "N", min=1)] = 50,
    seed: Annotated[int, option("--seed", "Seed of the random selection.", "S")] = 0,
    force: Annotated[bool, option("--force", "Overwrite an existing file.")] = False,
    *,
    shared: Shared,
) -> None:
    """Generate a gold file: queries from the index with one right answer each.

    They use the records' own words and are easy: they show regressions, not the quality for real users.
    """
    from retrieve_cli.config.values import unknown

    if from_ is not None and from_ not in KINDS:
        raise unknown(f"value {quoted(from_)} of --from", from_, KINDS)
    if not out.parent.is_dir():
        raise UsageError(f"there is no folder {out.parent}", hint=f"mkdir -p {out.parent}")
    if out.is_dir():
        raise UsageError(f"{out} is a folder; --out takes a file", hint=f"--out {out / 'gold.jsonl'}")
    if out.exists() and not force:
        raise UsageError(f"{out} exists", hint="name another file, or overwrite it: --force")
    kind, count, skipped = _drawn(shared, shared.settings(), out, from_, n=n, seed=seed)
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
    shared.talk.say("these queries use the records' own words: review them, and expect metrics close to 1")
    return chosen, len(made.lines), made.skipped
