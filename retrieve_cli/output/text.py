"""Answers as text for people: results as blocks or as a table, related records, and the explanation.

Notes on better hits than those shown that a limit has cut, and on hits below a threshold.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

from retrieve_cli.contracts import Json
from retrieve_cli.errors import printable, shortened
from retrieve_cli.output import block
from retrieve_cli.output.styled_lines import Line, LineRenderer, StyledText, cell_width, wrap
from retrieve_cli.search.answer import Answer, Spent

_VALUES, _LONGEST = 8, 40
"""Values of a facet that are shown; characters of a field or value."""

Table = Callable[[Answer], None]
"""Prints the results of an answer as a table."""


def print_answers(
    answers: Sequence[Answer],
    renderer: LineRenderer,
    *,
    explain: bool,
    timing: bool,
    batch: bool,
    table: Table | None = None,
) -> None:
    """Print answers one after the other, each under its query if they are a batch; results as blocks without a
    `table`."""
    for place, answer in enumerate(answers):
        if batch:
            heading = StyledText(f"{answer.query.id}: {' '.join(answer.query.text.split())}", "heading")
            _write(renderer, [[], [heading]] if place else [[heading]])
        if table is None or not answer.results:
            _write(renderer, _blocks(answer, renderer.width, explain=explain))
        else:
            table(answer)
            _write(renderer, _below_table(answer, renderer.width, explain=explain))
        _write(renderer, _end(answer, renderer.width, explain=explain, timing=timing))


def as_text(answer: Answer, renderer: LineRenderer, *, explain: bool) -> str:
    """Return one answer as text."""
    blocks = renderer.render(_blocks(answer, renderer.width, explain=explain))
    return blocks + renderer.render(_end(answer, renderer.width, explain=explain, timing=False))


def _write(renderer: LineRenderer, lines: Sequence[Line] | Iterator[Line]) -> None:
    sys.stdout.write(renderer.render(lines))


def _blocks(answer: Answer, width: int, *, explain: bool) -> Iterator[Line]:
    if not answer.results:
        yield [StyledText("no results")]
    indent = block.indent_of(answer)
    for rank, result in answer.ranked:
        yield from block.block(answer, result, rank=rank, width=width)
        if explain:
            from retrieve_cli.output import explanation

            yield from _rows(explanation.of_result(answer, result), indent + 2, width)


def _below_table(answer: Answer, width: int, *, explain: bool) -> Iterator[Line]:
    """Lines for which a table has no room: the dependencies of each result, and the explanation of its score."""
    from retrieve_cli.output import explanation

    for rank, result in answer.ranked:
        if result.bundle is None and not explain:
            continue
        yield [StyledText(f"{rank}. {result.hit.id if explain else result.record['id']}")]
        if result.bundle is not None:
            yield from ([StyledText("   "), *line] for line in block.needs(result.bundle, width - 3))
        if explain:
            yield from _rows(explanation.of_result(answer, result), 3, width)


def _end(answer: Answer, width: int, *, explain: bool, timing: bool) -> Iterator[Line]:
    yield from block.related(answer, width)
    facets = []
    for field, facet in answer.facets.items():
        counts = [f"{shortened(value, _LONGEST)} {count:,}" for value, count in facet.values[:_VALUES]]
        more = len(facet.values) - len(counts) + facet.others
        counts += [f"{more:,} more"] if more else []
        facets.append((shortened(field, _LONGEST), ", ".join(counts) or "none"))
    yield from _rows(facets, 0, width)
    if explain:
        from retrieve_cli.output import explanation

        yield from _rows(explanation.of_answer(answer), 0, width)
    if timing:
        yield [StyledText(", ".join(f"{name} {value:.1f} ms" for name, value in answer.timings_ms.items()), "dim")]


def _rows(rows: Sequence[tuple[str, str]], indent: int, width: int) -> Iterator[Line]:
    column = max((cell_width(label) for label, _ in rows), default=0) + 2
    for label, text in rows:
        room = max(width - indent - column, 20)
        for place, (start, end) in enumerate(wrap(text, room)):
            shown = "" if place else label
            padding = " " * (column - cell_width(shown))
            yield [StyledText(" " * indent), StyledText(shown, "dim"), StyledText(padding), StyledText(text[start:end])]


_NAMED = 5
"""Hits that a note names."""


def cut_notes(answer: Answer, *, budget: bool = True) -> Iterator[str]:
    """Yield a sentence for each kind of limit that has cut hits of an answer; none on the budget unless `budget`."""
    if budget and answer.spent is not None:
        yield from _budget(answer, answer.spent)
    yield from _quotas(answer)
    yield from _thresholds(answer)


def _budget(answer: Answer, spent: Spent) -> Iterator[str]:
    """Hits that did not fit while lower-ranked ones did, or nothing did."""
    cut = [each for each in spent.skipped if each.outranks or not answer.results]
    if not cut:
        return
    limits = [f"{_count(spent.max_tokens, 'token')}"] if spent.max_tokens is not None else []
    limits += [f"{_count(spent.max_chunks, 'chunk')}"] if spent.max_chunks is not None else []
    sized = spent.max_tokens is not None
    names = [f"{_name(answer, each.id)} ({each.size})" if sized else _name(answer, each.id) for each in cut]
    yield f"{_count(len(cut), 'hit')} did not fit into {' and '.join(limits)}: {_listed(names)}"


def _quotas(answer: Answer) -> Iterator[str]:
    """Hits beyond a quota that ranked above the last one shown."""
    last = answer.offset + len(answer.results)
    better: list[Mapping[str, Json]] = []
    for stage in reversed(_by_stage(answer.trace.get("diversity", {}).get("cut", ()))):
        last = _last_shown([int(each["rank"]) for each in stage], last)
        better = [each for each in stage if each["rank"] < last] + better
    by_quota: dict[str, list[str]] = {}
    for each in better:
        by_quota.setdefault(str(each["why"]), []).append(_name(answer, str(each["id"])))
    for quota, names in by_quota.items():
        yield f"{_count(len(names), 'better hit')} beyond the quota {quota}: {_listed(names)}"


def _by_stage(cut: Sequence[Mapping[str, Json]]) -> list[list[Mapping[str, Json]]]:
    """The hits that each stage has cut: the ranks of a stage ascend."""
    stages: list[list[Mapping[str, Json]]] = []
    for each in cut:
        if not stages or each["rank"] <= stages[-1][-1]["rank"]:
            stages.append([])
        stages[-1].append(each)
    return stages


def _last_shown(cut: Sequence[int], shown: int) -> int:
    """The rank of the last of `shown` hits, in a list from which the ranks in `cut` are removed."""
    last = shown
    for rank in sorted(cut):
        last += rank <= last
    return last


_TESTS = {
    "min_score": "below --min-score",
    "grade": "less similar than search.grade",
    "max_distance": "beyond search.max_distance",
}


def _thresholds(answer: Answer) -> Iterator[str]:
    """Hits that would be shown but for a threshold, or for a reranker that picks others."""
    for stage, tests in (("rerank", {"min_score": "below rerank.min_score"}), ("threshold", _TESTS)):
        by_test: dict[str, list[str]] = {}
        for each in answer.trace.get(stage, {}).get("hits", ()):
            by_test.setdefault(str(each["why"]), []).append(_name(answer, str(each["id"])))
        for test, names in by_test.items():
            name, _, value = test.partition(" ")
            what = f"{tests[name]} {value}" if name in tests else "not picked by the reranker"
            yield f"{_count(len(names), 'result')} {what}: {_listed(names)}"
    if skipped := (answer.confidence or {}).get("left_out"):
        yield f"{_count(int(skipped), 'result')} below --min-confidence {(answer.confidence or {})['min_confidence']:g}"


def _name(answer: Answer, chunk_id: str) -> str:
    return printable(shortened(chunk_id if answer.unit == "chunk" else chunk_id.rpartition("#")[0]))


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
