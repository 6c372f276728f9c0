"""`retrieve query`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from retrieve_cli.api.choices import SEARCH
from retrieve_cli.api.table import PYTHON
from retrieve_cli.cli.options import OutputFlags, Panels, Shared, argument, flag_of, keys_of, shared
from retrieve_cli.errors import UsageError
from retrieve_cli.frozen import replace

if TYPE_CHECKING:
    from retrieve_cli.cli import answering

CLASS = Panels
"""Class of the command."""


@shared("text", "table", "json", "jsonl", "csv", "md", "trec", "prompt", "prompt-table", table=SEARCH)
def query(
    text: Annotated[
        list[str] | None, argument("[TEXT...|-]", "The query; - reads one per line from stdin, as text or JSON.")
    ] = None,
    *,
    chosen: dict[str, Any],
    shared: Shared,
) -> None:
    """Search the index and explain every result.

    With --json, one query prints one object and - prints an answer per line; --format jsonl prints a result per line,
    and for - an answer per line. A line that is not a query is answered by {"query_id": ..., "error": {...}}; the
    others are answered, and the exit code is 8.
    """
    # First, while few calls are open: within the imports below it, NumPy's own make Python 3.11 map and unmap the same
    # piece of its stack 700 times.
    import numpy  # noqa: F401, ICN001

    from retrieve_cli.api.requests import sound
    from retrieve_cli.cli import answering

    stream = "stream" in chosen
    if stream and text not in (None, [], ["-"]):
        raise UsageError("--stream reads its queries from stdin", hint="leave TEXT out: retrieve query - --stream")
    batch = stream or text == ["-"]
    run = _run_of(chosen, shared, batch=batch)
    run.check()
    run.settings.expect_trusted("query")
    asked, words = run.asked, " ".join(text or ())
    selects = asked.files or asked.also or asked.like or asked.filters or asked.doc_ids or "sort" in chosen
    if not (batch or words.strip() or selects):
        raise UsageError("the query is empty", hint='for example: retrieve query "segment lungs in CT"')
    if run.settings.query.server is not None:
        from retrieve_cli.cli import elsewhere

        elsewhere.answer(run, chosen, words)
        return
    if not batch:
        answering.answer_one(run, replace(asked, text=sound(words), id="1"))
        return
    from retrieve_cli.cli import stdin_queries

    (stdin_queries.answer_stream if stream else stdin_queries.answer_batch)(run)


def _run_of(chosen: dict[str, Any], shared: Shared, *, batch: bool) -> answering.Run:
    from retrieve_cli.api.requests import IN_REQUEST, request_of
    from retrieve_cli.cli import answering

    given: dict[str, str] = {}
    settings = shared.with_keys(keys_of(SEARCH, chosen), given=given)
    rows = SEARCH.in_door(PYTHON).values()
    own = {row.chosen: chosen.get(row.chosen) for row in rows}
    asked = replace(request_of("", own, named=flag_of), typed_ids="doc_ids" in chosen)
    shape = OutputFlags.of(chosen, batch=batch)
    shape.check(shared.format)
    if shared.format == "prompt" and own["chunks"] is None:
        own["chunks"] = True
    return answering.Run(
        shared,
        settings,
        asked,
        shape,
        {row.chosen: own[row.chosen] for row in rows if row.name not in IN_REQUEST and (row.option or not row.key)},
        given=given,
        docs_dir=chosen.get("docs_dir"),
        picture=chosen.get("picture"),
        save_run="save_run" in chosen,
        strict_fresh="strict_fresh" in chosen,
        exit_status="exit_status" in chosen,
    )
