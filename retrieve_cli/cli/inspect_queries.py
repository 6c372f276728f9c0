"""`retrieve inspect queries`."""

from __future__ import annotations

from typing import Annotated

import typer

from retrieve_cli.cli.options import Shared, shared
from retrieve_cli.errors import UsageError


@shared("text", "json", "prometheus")
def queries(
    since: Annotated[
        str | None, typer.Option("--since", metavar="DATE", help="Only queries from then on: 2026-01-31, in UTC.")
    ] = None,
    most: Annotated[int, typer.Option("-n", metavar="N", help="Show so many of the texts that are asked most.")] = 10,
    *,
    shared: Shared,
) -> None:
    """Summarise the log of queries: number, latency, scores, by day; texts asked most, and those that found nothing.

    --format prometheus prints the numbers for a textfile collector; retrieve serve has them at /metrics.
    """
    from retrieve_cli.inspect.query_log import moment, read_log
    from retrieve_cli.output import formats, journal, prometheus

    if most < 0:
        raise UsageError(f"-n is {most}; it takes a whole number from 0", hint="-n 10")
    shared.settings()
    path = shared.store.runs / journal.QUERIES
    log = read_log(path, None if since is None else moment(since))
    if shared.format == "prometheus":
        from retrieve_cli.inspect.query_metrics import query_metrics

        print(prometheus.exposition(query_metrics(log)), end="")
    elif shared.format == "json":
        print(formats.dump({"log": str(path), **log.to_json(most)}))
    else:
        from retrieve_cli.output.query_summary import print_queries

        print_queries(log.to_json(most), shared.console())
    if log.damages:
        named = ", ".join(f"{each.line} ({each.why})" for each in log.damaged)
        more = ", …" if log.damages > len(log.damaged) else ""
        lines = "1 damaged line" if log.damages == 1 else f"{log.damages} damaged lines"
        shared.talk.say(f"note: without {lines} of {path}: {named}{more}")
