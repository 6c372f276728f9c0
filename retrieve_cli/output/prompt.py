"""Answers as text for a language model: whole passages with numbered citations, or a table of records.

    # the question

    ## name of a document

    [1] docs/a.md:12-40 › Section > Subsection
    ```
    the whole passage
    ```

Documents are in the order of their best hits, and the passages of one document in reading order. A passage is data: no
fence within it is as long as the one around it, so that no text can end its passage or forge a citation.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from retrieve_cli.contracts import Json
from retrieve_cli.errors import printable
from retrieve_cli.output.places import citation, numbered, printable_line, span_of
from retrieve_cli.output.reasons import ALSO_NEEDED, path_in_words
from retrieve_cli.search.answer import Answer, Result, Span
from retrieve_cli.search.context import together

_BETWEEN = "\n---\n\n"
"""Stands between the prompts of a batch."""
_NAMED = 5
"""Ids that a note lists."""


class Written(NamedTuple):
    """Text that is printed."""

    text: str
    notes: tuple[str, ...]
    """Notes on what did not fit."""


def as_prompt(answers: Sequence[Answer], *, batch: bool = False) -> Written:
    """Return a prompt a query: its passages under their documents."""

    def render(answer: Answer, results: Sequence[Result], related: Sequence[Result]) -> str:
        numbers = count(1)
        body = "\n".join(_by_document(_documents(results), numbers)) or "(no passages)\n"
        return f"# {_title(answer, batch)}\n\n{body}{_also_needed(related)}"

    return _together(answers, render, batch=batch)


def as_table(answers: Sequence[Answer], *, batch: bool = False) -> Written:
    """Return a table a query, a record a row; in a batch under the query's text."""

    def render(answer: Answer, results: Sequence[Result], related: Sequence[Result]) -> str:
        best = {result.hit.record: result for result in reversed(results)}
        rows = [_row(best[record]) for record in dict.fromkeys(result.hit.record for result in results)]
        lines = [_COLUMNS, ["---"] * len(_COLUMNS), *rows]
        table = "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
        headed = f"# {_title(answer, batch)}\n\n{table}" if batch else table
        return headed + _also_needed(related)

    return _together(answers, render, batch=batch)


_COLUMNS = "name description url keywords license modalities dimensions formats demo retrieval_score".split()
"""The last one is the reranker's score, on its own scale, for reranked results; else the retrieval score."""


Render = Callable[[Answer, Sequence[Result], Sequence[Result]], str]
"""Makes a text of an answer from some of its results and of its related records."""


def _together(answers: Sequence[Answer], render: Render, *, batch: bool) -> Written:
    """Texts that `render` makes of each answer, as far as its budget goes."""
    texts, notes = [], []
    for answer in answers:
        text, kept = _written(answer, render)
        texts.append(text)
        where = f"query {answer.query.id}: " if batch else ""
        notes += [where + note for note in _skipped(answer, kept)]
    return Written(_BETWEEN.join(texts), tuple(notes))


def _written(answer: Answer, render: Render) -> tuple[str, Sequence[Result]]:
    """The text of an answer, its related records last as there is room for them; and the results that it has."""
    kept = fitting(answer, answer.results, lambda some: render(answer, some, ()))
    related = fitting(answer, answer.related, lambda some: render(answer, kept, some))
    return render(answer, kept, related), kept


def fitting(answer: Answer, results: Sequence[Result], render: Callable[[Sequence[Result]], str]) -> Sequence[Result]:
    """Return the first results whose printed text, headings included, is within the budget."""
    spent = answer.spent
    if spent is None or spent.count is None or spent.max_tokens is None:
        return results
    tokens, limit = spent.count, spent.max_tokens
    first = bisect_left(range(1, len(results) + 1), x=True, key=lambda size: tokens(render(results[:size])) > limit)
    return results[:first]


def _skipped(answer: Answer, kept: Sequence[Result]) -> Iterator[str]:
    spent = answer.spent
    if spent is None:
        return
    shown = {result.hit.id for result in kept}
    partly = [(name, why) for name, why in spent.cut if name in shown]
    ids = [name for name, _ in spent.cut if name not in {result.hit.id for result in answer.results}]
    ids += [result.hit.id for result in answer.results[len(kept) :]]
    if ids:
        limits = [f"{spent.max_tokens} tokens"] if spent.max_tokens is not None else []
        limits += [f"{spent.max_chunks} chunks"] if spent.max_chunks is not None else []
        named = ", ".join(ids[:_NAMED]) + (f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else "")
        yield f"did not fit into {' and '.join(limits)}: {named}"
    yield from (f"{name}: {why}" for name, why in partly)


class _Passage(NamedTuple):
    """A stretch of one document, of one hit or of several that touch."""

    span: Span
    sections: tuple[str, ...]
    above: str
    """Header of a table that was cut there: shown above its text without being part of it."""


_Document = tuple[Result, Sequence[_Passage]]
"""A record among the results by its best one, and its passages in the order in which they are read."""


def _documents(results: Sequence[Result]) -> list[_Document]:
    by_record: dict[int, list[Result]] = {}
    for result in results:
        by_record.setdefault(result.hit.record, []).append(result)
    return [(own[0], _passages(own)) for own in by_record.values()]


def _passages(results: Sequence[Result]) -> list[_Passage]:
    """The passages of one document: hits that overlap are one, and so are neighbours within one section."""
    done: list[_Passage] = []
    for result in sorted(results, key=lambda each: (span_of(each).start, -span_of(each).end)):
        span, section = span_of(result), result.chunk["section"]
        sections = (str(section),) if section else ()
        if done and _touch(done[-1], span, sections):
            before = done[-1]
            named = tuple(dict.fromkeys((*before.sections, *sections)))
            done[-1] = before._replace(span=together([before.span, span]), sections=named)
        else:
            done.append(_Passage(span, sections, result.text.removesuffix(span.text)))
    return done


def _touch(before: _Passage, span: Span, sections: tuple[str, ...]) -> bool:
    """Return True if a passage goes on with a span that does not begin before it."""
    next_to = span.first == before.span.last + 1 and sections == before.sections
    return span.start < before.span.end or next_to


def _by_document(documents: Sequence[_Document], numbers: Iterator[int]) -> Iterator[str]:
    for best, passages in documents:
        record = best.record
        aside = "" if record["id"] in (record["name"], record["source"]) else f" ({record['id']})"
        title = printable_line(f"{record['name']}{aside}")
        blocks = []
        for passage in passages:
            place = citation(best, passage.span, passage.sections)
            blocks.append(numbered(next(numbers), place, passage.above + passage.span.text))
        if best.bundle is not None and best.bundle.needs:
            needs = ", ".join(need.id for need in best.bundle.needs)
            blocks.append(printable_line(f"requires, in this order: {needs}") + "\n")
        yield f"## {title}\n\n" + "\n".join(blocks)


def _also_needed(related: Sequence[Result]) -> str:
    if not related:
        return ""
    lines = []
    for result in related:
        words = path_in_words(result.hit.path or "")
        line = f"{result.record['name']} ({result.record['id']}){f': {words}' if words else ''}"
        lines.append("- " + printable_line(line))
    return "\n".join(["", f"## {ALSO_NEEDED}", "", *lines, ""])


def _title(answer: Answer, batch: bool) -> str:
    return printable_line(f"{answer.query.id}: {answer.query.text}" if batch else answer.query.text)


def _row(result: Result) -> list[str]:
    record = result.record
    data: Mapping[str, Json] = record["supporting_data"]
    values = [record[key] for key in ("name", "description", "url", "keywords", "license")]
    values += [data.get(key) for key in ("modalities", "dimensions", "formats", "demo_url")]
    return [*map(_cell, values), f"{result.retrieval_score:.4f}"]


def _cell(value: Json) -> str:
    """A value as a cell of a Markdown table: no character of it ends the cell or the row."""
    if value is None:
        return ""
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    escaped = text.strip().replace("\r\n", "\n").replace("\t", " ").replace("\\", "\\\\").replace("|", "\\|")
    return "<br>".join(map(printable, escaped.split("\n")))
