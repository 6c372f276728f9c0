"""Notes on better hits than those shown that a limit has cut, and on hits below a threshold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from retrieve_cli.contracts import Json
from retrieve_cli.errors import printable, shortened
from retrieve_cli.search.answer import Answer, Spent

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
    """Hits beyond a quota that stood above the last one shown."""
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
    """The rank of the last of so many hits that are shown, in a list from which those of some ranks are cut."""
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
    """The id of a hit, for a line of text."""
    return printable(shortened(chunk_id if answer.unit == "chunk" else chunk_id.rpartition("#")[0]))


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
