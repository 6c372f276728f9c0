"""`retrieve inspect queries`."""

from __future__ import annotations

from typing import Annotated

import typer

from retrieve_cli.cli.options import Shared, shared
from retrieve_cli.errors import UsageError


@shared("text", "json", "prometheus")
def queries(
    since: Annotated[
        str | None, typer.Option("--since", metavar="DATE", help="Only queries since then, in UTC: 2026-01-31.")
    ] = None,
    most: Annotated[int, typer.Option("-n", metavar="N", help="Number of most frequent queries to show.")] = 10,
    *,
    shared: Shared,
) -> None:
    """Summarise the query log: number, latency and scores by day; frequent queries, and those without results.

    --format prometheus is for a textfile collector; retrieve serve has the same numbers at /metrics.
    """
    from retrieve_cli.contracts.terms import figures
    from retrieve_cli.operations.query_log import moment, query_metrics, read_log
    from retrieve_cli.output import formats, journal, prometheus

    if most < 0:
        raise UsageError(f"-n is {most}; it takes a whole number from 0", hint="-n 10")
    shared.settings()
    path = shared.store.runs / journal.QUERIES
    log = read_log(path, None if since is None else moment(since))
    if shared.format == "prometheus":
        print(prometheus.exposition(query_metrics(log)), end="")
    elif shared.format == "json":
        print(formats.dump({"log": str(path), **log.to_json(most)}))
    else:
        from retrieve_cli.output.console_tables import print_queries

        print_queries(log.to_json(most), shared.console())
    if log.damages:
        named = ", ".join(f"{damage.line} ({damage.why})" for damage in log.damaged)
        more = ", …" if log.damages > len(log.damaged) else ""
        lines = figures.count(log.damages, "damaged line")
        shared.talk.say(f"note: skipped {lines} of {path}: {named}{more}")
