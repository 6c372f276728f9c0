"""`retrieve inspect`: contents and soundness of the index."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieve_cli.api.choices import SEARCH
from retrieve_cli.cli.options import Shared, argument, flag_of, group, keys_of, option, shared
from retrieve_cli.errors import Exit, UsageError, printable
from retrieve_cli.frozen import replace
from retrieve_cli.untrusted import files

if TYPE_CHECKING:
    from retrieve_cli.storage.generation import Generation

app = group(
    "Inspect the index: status, records, fields, record, chunk, files, graph, why, run, queries, verify, history, "
    "diff; with page, any PDF."
)


_CHOICES = SEARCH.only("filters", "files", "also", "doc_ids", "tenant", "limit", "mode", "retrievers")
"""Choices of a query that its explanation takes."""
Id = Annotated[str, argument("ID")]


@app.command()
@shared("text", "json")
def status(*, shared: Shared) -> None:
    """Show contents, sources, model, pipeline and size of the index; -v shows everything."""
    from retrieve_cli.operations import status as viewed

    view = _look(shared, partial(viewed.status, artifacts=shared.artifacts, settings=shared.settings()))
    lines = None if shared.talk.verbose else viewed.status_lines(view, width=shared.console().width)
    _show(view, shared, lines)


@app.command()
@shared("text", "json", "jsonl")
def records(
    filter_: Annotated[
        list[str] | None, option("--filter", "Keep records that match; repeatable.", "FIELD=VALUE")
    ] = None,
    limit: Annotated[
        int | None, option("-n --limit", "Maximum number of records; 0: all.  [default: 20; all as JSON]", "N")
    ] = None,
    *,
    shared: Shared,
) -> None:
    """List the records, or those that match every filter.

    --json and --format jsonl print them with their texts: a catalog from which retrieve build makes the same records
    again.
    """
    from retrieve_cli.contracts.terms import figures
    from retrieve_cli.operations import views
    from retrieve_cli.output import console_tables, formats

    if limit is None:
        limit = 20 if shared.format == "text" else 0
    if limit < 0:
        raise UsageError(f"--limit is {limit}; it takes a whole number from 0", hint="--limit 0 shows all of them")
    found = _look(shared, partial(views.records, filters=filter_ or [], limit=limit))
    if shared.format == "jsonl":
        for row in found["records"]:
            print(formats.dump(row))
    elif shared.format == "json":
        print(formats.document({**found, "records": list(found["records"])}))
    else:
        console_tables.print_records(rows := list(found["records"]), shared.console())
        shared.talk.say(f"{len(rows):,} of {figures.count(found['matched'], 'record')}")


@app.command()
@shared("text", "json")
def fields(
    name: Annotated[str | None, argument("[NAME]", "Only this field, with more values.")] = None, *, shared: Shared
) -> None:
    """List the fields of records: type, share of the records that have it, most frequent values."""
    from retrieve_cli.api.contents import fields_of
    from retrieve_cli.api.index import Index
    from retrieve_cli.output.plain_text import percent

    index = Index(shared.store, shared.settings())
    found = fields_of(index, names=[name] if name else [], examples=100 if name else 5)
    lines = [f"{field.type:6} {percent(field.share):>6}  {field.line()}" for field in found]
    _show({"fields": [field.to_json() for field in found]}, shared, lines)


@app.command()
@shared("text", "json")
def record(id_: Id, *, shared: Shared) -> None:
    """Show a record: its fields and weights, the text that was indexed, its chunks; -v shows long texts in full."""
    from retrieve_cli.operations import text, views

    view = _look(shared, partial(views.record, record_id=id_))
    _show(view, shared, [text.record_text(view, whole=shared.talk.verbose)])


@app.command()
@shared("text", "json")
def chunk(id_: Id, *, shared: Shared) -> None:
    """Show a chunk: its place, its text, the text that was embedded, the terms that BM25 counts."""
    from retrieve_cli.operations import text, views

    view = _look(shared, partial(views.chunk, chunk_id=id_, settings=shared.settings()))
    _show(view, shared, [text.chunk_text(view)])


@app.command("files")
@shared("text", "json", "jsonl")
def files_(
    source: Annotated[str | None, option("--source", "Only files of this source.", "NAME")] = None,
    group: Annotated[str | None, option("--group", "Only records of this group.", "NAME")] = None,
    *,
    shared: Shared,
) -> None:
    """List the files that the index was built from: records, chunks, SHA-1, chunk ids; chunks per group.

    The SHA-1 of a document covers its path, its parser and its bytes, by which a sync detects changes; the SHA-1 of a
    catalog is the one of its file. --json has all digits and all chunk ids.
    """
    from retrieve_cli.operations import files as listed
    from retrieve_cli.storage.generation import open_generation

    shared.settings()
    with open_generation(shared.store) as generation:
        listing = listed.Listing(generation, source=source, group=group)
        if shared.format == "json":
            pieces = listed.as_json(listing, generation.id)
        else:
            pieces = listed.as_lines(listing) if shared.format == "jsonl" else listed.as_text(listing)
        for piece in pieces:
            print(piece, end="")


@app.command()
@shared("text", "json")
def duplicates(
    above: Annotated[float, option("--above", "Least cosine similarity of a pair.", "S", min=-1, max=1)] = 0.95,
    limit: Annotated[int, option("-n --limit", "Pairs to show; 0: all.", "N", min=0)] = 100,
    *,
    shared: Shared,
) -> None:
    """List pairs of records that are nearly the same, by their vectors, with their lines."""
    from retrieve_cli.operations import duplicates as found

    view = _look(shared, partial(found.duplicates, above=above, most=limit))
    _show(view, shared, found.lines(view))


@app.command()
@shared("text", "json")
def synonyms(
    limit: Annotated[int, option("-n --limit", "Abbreviations to show; 0: all.", "N", min=0)] = 0, *, shared: Shared
) -> None:
    """List the abbreviations that records define, as rules for synonyms.file."""
    from retrieve_cli.operations import abbreviations

    view = _look(shared, partial(abbreviations.abbreviations, most=limit))
    _show(view, shared, abbreviations.lines(view))


@app.command()
@shared("text", "json")
def graph(
    id_: Annotated[str | None, argument("[ID]", "A record id, or FIELD:VALUE that records share.")] = None,
    *,
    shared: Shared,
) -> None:
    """Show the edges between records and dangling references, or the neighbours of one record."""
    from retrieve_cli.operations import views

    _show(_look(shared, partial(views.graph, name=id_, settings=shared.settings())), shared)


@app.command()
@shared("text", "json", table=_CHOICES)
def why(
    query: Annotated[str, argument("QUERY", "The query, with its tags.")],
    id_: Id,
    *,
    chosen: dict[str, Any],
    shared: Shared,
) -> None:
    """Explain the rank of one record (or chunk) for QUERY, or why it is missing, stage by stage; -v shows more."""
    from retrieve_cli.api.requests import request_of, sound
    from retrieve_cli.operations.text import why_lines
    from retrieve_cli.operations.why import why as trace
    from retrieve_cli.search.opened import Opened

    settings = shared.with_keys(keys_of(_CHOICES, chosen))
    opened = Opened.of(shared.store, settings)
    request = replace(request_of(query, chosen, named=flag_of), id="0", typed_ids="doc_ids" in chosen, retrievers=())
    view, notices = trace(opened, request, sound(id_))
    for notice in notices:
        shared.talk.say(f"note: {notice}")
    _show(view, shared, None if shared.talk.verbose else why_lines(view))


@app.command()
@shared("text", "json")
def run(id_: Id, *, shared: Shared) -> None:
    """Show a run that query --save-run saved."""
    from retrieve_cli.output import journal

    shared.settings()
    _show(journal.read(journal.folder_of(shared.store.runs, id_)), shared)


@app.command()
@shared("text", "json")
def queries(
    since: Annotated[str | None, option("--since", "Only queries since then, in UTC: 2026-01-31.", "DATE")] = None,
    most: Annotated[int, option("-n --limit", "Number of most frequent queries to show.", "N")] = 10,
    *,
    shared: Shared,
) -> None:
    """Summarise the query log: number, latency and scores by day; frequent queries, and those without results."""
    from retrieve_cli.contracts.terms import figures
    from retrieve_cli.operations.query_log import moment, read_log
    from retrieve_cli.output import formats, journal

    if most < 0:
        raise UsageError(f"-n is {most}; it takes a whole number from 0", hint="-n 10")
    shared.settings()
    path = shared.store.runs / journal.QUERIES
    log = read_log(path, None if since is None else moment(since))
    if shared.format == "json":
        print(formats.document({"log": str(path), **log.to_json(most)}))
    else:
        from retrieve_cli.output.console_tables import print_queries

        print_queries(log.to_json(most), shared.console())
    if log.damages:
        named = ", ".join(f"{damage.line} ({damage.why})" for damage in log.damaged)
        more = ", …" if log.damages > len(log.damaged) else ""
        lines = figures.count(log.damages, "damaged line")
        shared.talk.say(f"note: skipped {lines} of {path}: {named}{more}")


@app.command()
@shared("text", "json")
def page(
    file: Annotated[Path, argument("FILE", "A PDF file, indexed or not.")],
    name: Annotated[str, argument("PAGE", "Its number, from 1, or its printed label: 12, viii.")],
    label: Annotated[bool, option("--label", "PAGE is a printed label, even if it is a number.")] = False,
    picture: Annotated[Path | None, option("--picture", "Draw the page and its blocks, as .png.", "FILE")] = None,
    *,
    shared: Shared,
) -> None:
    """Show the blocks of a page in reading order, as its parser sees them: kind, box, first words."""
    from retrieve_cli.cli.picturing import write_picture
    from retrieve_cli.operations.pages import page_lines, page_view

    settings = shared.settings()
    view = page_view(file, name, settings, label=label)
    if picture is not None:
        write_picture(picture, view.picture(settings))
        shared.talk.say(f"{picture}: page {view.values['page']}")
    _show(view.values, shared, page_lines(view.values))


@app.command()
@shared("text", "json")
def verify(*, shared: Shared) -> None:
    """Check every file of the index against its SHA-1; exit 5 and name each damaged file."""
    from retrieve_cli.cli.progress import progress_for
    from retrieve_cli.operations import text, views

    with progress_for(shared.talk, sys.stderr):
        report = views.verify(shared.store, shared.settings())
    _show(report, shared, text.verify_lines(report))
    if not report["ok"]:
        raise typer.Exit(Exit.INDEX_CORRUPT)


@app.command()
@shared("text", "json")
def history(*, shared: Shared) -> None:
    """List the generations that are kept, newest first; sync --rollback ID makes one of them current again."""
    from retrieve_cli.operations import text, views
    from retrieve_cli.operations.status import noun_of
    from retrieve_cli.output import formats

    shared.settings()
    rows = views.history(shared.store)
    if shared.format == "json":
        print(formats.dump(rows))
        return
    print(*text.history_lines(rows, noun_of(kind for row in rows for kind in row["kinds"])), sep="\n")


@app.command()
@shared("text", "json")
def diff(
    old: Annotated[str | None, argument("[A]", "A generation. Default: the one before B.")] = None,
    new: Annotated[str | None, argument("[B]", "Another one. Default: the current one.")] = None,
    gold: Annotated[
        Path | None, option("--gold", "Compare the answers to the queries of this gold file.", "FILE")
    ] = None,
    query: Annotated[
        list[str] | None, option("--query", "Compare the answers to this query; repeatable.", "TEXT")
    ] = None,
    *,
    shared: Shared,
) -> None:
    """Show the differences of two generations: records, settings of the index, and the top 10 of queries."""
    from retrieve_cli.cli.requests import read_requests, sound
    from retrieve_cli.contracts import Request
    from retrieve_cli.operations.diff import compare
    from retrieve_cli.operations.status import noun_of
    from retrieve_cli.operations.text import diff_lines

    queries = [Request(sound(text), str(number)) for number, text in enumerate(query or (), 1)]
    if gold is not None:
        try:
            lines = files.read_bytes(gold, limit=files.JUDGMENTS).splitlines()
        except OSError as error:
            hint = "check the path and its permissions"
            raise UsageError(f"cannot read {gold}: {error.strerror}", hint=hint) from error
        queries += read_requests(lines, str(gold), Request(""), folder=gold.parent)
    view = compare(shared.store, shared.settings(), old, new, queries)
    _show(view, shared, None if shared.talk.verbose else diff_lines(view, noun_of(view["kinds"])))


def _look(shared: Shared, look: Callable[[Generation], dict[str, Any]]) -> dict[str, Any]:
    from retrieve_cli.storage.generation import open_generation

    shared.settings()  # a faulty configuration is an error here too
    with open_generation(shared.store) as generation:
        return look(generation)


def _show(value: dict[str, Any], shared: Shared, lines: Iterable[str] | None = None) -> None:
    """Print a view: as JSON, as `lines` for people, or whole as YAML without `lines`."""
    from retrieve_cli.output import console_tables, formats

    if shared.format == "json":
        print(formats.document(value))
    elif lines is None:
        print(console_tables.outline(value), end="")
    else:
        print(printable("\n".join(lines).rstrip("\n"), "\n\t"))
