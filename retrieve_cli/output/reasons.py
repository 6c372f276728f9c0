"""Reasons for the rank of a result, in a few words each: `bm25 #1`, `required by lungmask`."""

from __future__ import annotations

import re
from typing import NamedTuple

from retrieve_cli.contracts import LOWERED, NAMED, VARIANT, Evidence
from retrieve_cli.contracts.tools import tool_marks
from retrieve_cli.errors import printable
from retrieve_cli.search.answer import Answer, Result

SEPARATOR = " · "
ALSO_NEEDED = "Also needed"
"""The heading over records that the results lead to."""
GRAPH = "graph"
"""The source of the evidence of a linked record."""
_FORWARD = {
    "requires": "required by {}",
    "part_of": "contains {}",
    "is_a": "broader than {}",
    "links_to": "linked from {}",
}
"""By the kind of an edge, what the record at its end is to the one at its start."""
_BACKWARD = {"requires": "requires {}", "part_of": "part of {}", "is_a": "a kind of {}", "links_to": "links to {}"}
_BOTH = {"compatible_with": "compatible with {}", "co_occurs": "used together with {}"}
_MOVED = {"mmr": "diversified", "boost": "boosted", "recency": "recent"}
_VERBS = ("requires ", "contains ", "links ", "shares ")


class Reason(NamedTuple):
    """A few words, and the style in which a terminal shows them."""

    text: str
    style: str = "dim"


def reasons(result: Result, *, rank: int) -> list[Reason]:
    """Return the reasons for a result, of which `rank` is the place in the answer, from 1."""
    hit = result.hit
    listed = [Reason(_of(evidence, result, rank)) for evidence in hit.evidence]
    if hit.path is not None and all(evidence.source != GRAPH for evidence in hit.evidence):
        listed.append(Reason(path_in_words(hit.path)))
    if hit.reranked is not None:
        listed.append(Reason(f"reranked {_move(hit.reranked.before, rank)}"))
    if hit.topped_up is not None:
        listed.append(Reason(f"topped up: {hit.topped_up}", "hint"))
    if result.freshness != "fresh":
        listed.append(Reason(f"{result.freshness} since the build", "alert"))
    if marks := tool_marks(result.record.get("metadata", {})):
        listed.append(Reason(marks, "alert"))
    return listed


def why(result: Result, *, rank: int) -> str:
    """Return the reasons for a result as one line."""
    return SEPARATOR.join(reason.text for reason in reasons(result, rank=rank))


def rank_before_budget(answer: Answer, rank: int) -> int:
    """Return the rank that the result of a rank had before a budget skipped some."""
    for skipped in answer.spent.skipped if answer.spent else ():
        rank += skipped.rank <= rank
    return rank


def _of(evidence: Evidence, result: Result, rank: int) -> str:
    source, place = evidence.source, evidence.rank
    if source == GRAPH:
        return path_in_words(result.hit.path) if result.hit.path else "linked"
    if source in _MOVED:
        return f"{_MOVED[source]} {_move(place or rank, rank)}"
    if source == NAMED:
        return "named in the query"
    if source == LOWERED:
        return source
    if source.startswith(VARIANT):
        number = source.removeprefix(VARIANT)
        source = "query" if number == "1" else f"variant {int(number) - 1}"
    return f"{source} {'–' if place is None else f'#{place}'}"


def _move(before: int, after: int) -> str:
    return f"#{after}" if before == after else f"{before}→{after}"


def path_in_words(path: str) -> str:
    """Return the relation of the end of a path to its start: for `a —requires→ b`, b is `required by a`."""
    without_score = re.sub(r" \([\d.]{1,20}\)$", "", path)
    names = re.split(r" (?:—([^—→←]{1,200}+)→|←([^—→←]{1,200}+)—) ", without_score)
    nodes, steps = names[::3], list(zip(names[1::3], names[2::3], strict=True))
    words: list[str] = []
    while steps:
        forward, backward = steps.pop()
        nodes.pop()
        if backward and steps and steps[-1][0] == backward:  # two records that have one thing in common
            steps.pop()
            words.append(f"shares {nodes.pop()} with {nodes[-1]}")
        else:
            words.append(_phrase(forward, backward).format(nodes[-1]))
    first, *others = words or [path]
    return printable(first + "".join(f", which {'' if each.startswith(_VERBS) else 'is '}{each}" for each in others))


def _phrase(forward: str, backward: str) -> str:
    """The words for a step, with room for the name that it starts from."""
    kind = forward or backward
    if kind in _BOTH:
        return _BOTH[kind]
    known = _FORWARD if forward else _BACKWARD
    named = kind.replace("{", "").replace("}", "")
    return known.get(kind, f"linked from {{}} ({named})" if forward else f"links to {{}} ({named})")
