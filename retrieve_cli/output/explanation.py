"""Explanation of the scores of an answer, in plain words: of each result, and of the answer as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from retrieve_cli.contracts import LOWERED, NAMED, Evidence
from retrieve_cli.output.plain_text import percent, significant
from retrieve_cli.output.reasons import GRAPH, path_in_words
from retrieve_cli.search.answer import Answer, Result

_DIGITS = 4
Row = tuple[str, str]
"""A label and its value."""


def of_result(answer: Answer, result: Result) -> list[Row]:
    """Return what adds up to the score of a result."""
    confidence = "" if result.confidence is None else f", confidence {percent(result.confidence)}"
    passage = f", by its chunk {result.hit.id}" if answer.unit == "record" else ""
    rows = [("score", f"{_number(result.hit.score)}{confidence}{passage}")]
    rows += [(evidence.source, _evidence(answer, result, evidence)) for evidence in result.hit.evidence]
    if result.hit.topped_up is not None:
        rows.append(("topped up", f"{result.hit.topped_up}, and there are too few results without it"))
    if (moved := result.hit.reranked) is not None:
        before = f"rank {moved.before} with {_number(moved.retrieval_score)} before reranking"
        added = f"the reranker's score {_number(moved.score)} adds {_number(moved.part)}"
        rows.append((moved.scorer, f"{before}; {added}"))
    return rows


def _evidence(answer: Answer, result: Result, evidence: Evidence) -> str:
    score = _number(evidence.score)
    if evidence.source == GRAPH:
        path = result.hit.path or ""
        words = path_in_words(path)
        aside = f" ({path})" if path and path != words else ""
        return f"{words}{aside}: path score {score}, which adds {_number(evidence.normalized)}"
    if evidence.source == NAMED:
        return f"from {score} by {_number(evidence.part)}, because the query lists it by its name"
    if evidence.source == LOWERED:
        return f"from {score} by {_number(-evidence.part)}, to follow the results that were reranked or routed to"
    product = f"{_number(evidence.normalized)} × weight {evidence.weight:g} = {_number(evidence.part)}"
    if evidence not in result.hit.counted:
        product += ", for one of the query variants"
    if evidence.rank is not None:
        return f"rank {evidence.rank}, score {score}; {product}"
    depth = _depth(answer.pipeline, evidence.source)
    return f"scored outside its top{f' {depth}' if depth else ''}, score {score}; {product}"


def _depth(pipeline: str, retriever: str) -> str:
    """The retrieval depth of a retriever, as the expression of the pipeline has it: 200 of `bm25@200`."""
    return "".join(takewhile(str.isdigit, pipeline.partition(f"{retriever}@")[2]))


def _number(value: float) -> str:
    text = significant(value, _DIGITS)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def of_answer(answer: Answer) -> list[Row]:
    """Return the facts that hold for all results: the pipeline, the parsed query, and skipped or cut parts."""
    confidence = ", ".join(f"{name} {value}" for name, value in (answer.confidence or {}).items())
    return [
        *_reading(answer),
        ("pipeline", answer.pipeline),
        ("fusion", answer.fusion_method),
        ("generation", answer.generation),
        *([("confidence", confidence)] if confidence else []),
        *((f"{name} skipped", reason) for name, reason in answer.strategies_skipped.items()),
        *(("searched as", f"{attempt.text!r}: {attempt.results} results") for attempt in answer.attempts),
        *_limits(answer),
    ]


def _reading(answer: Answer) -> Iterator[Row]:
    question = answer.question
    if question.enhanced != question.request.text:
        yield "read as", repr(question.enhanced)
    if question.excluded:
        yield "excluded", ", ".join(question.excluded)
    for _, condition in question.filters:
        yield "filter", condition
    for name, counts in answer.trace.get("filter", {}).items():
        passed, candidates = counts["candidates_after_filter"], counts["candidates_before_filter"]
        yield f"{name} filtered", f"{passed} of {candidates} candidates pass"
    if gate := answer.trace.get("gate"):
        chosen = ", ".join(str(each["group"]) for each in gate["chosen"])
        skipped = f"{gate['left_out']} of {gate['groups_seen']} groups skipped"
        yield "groups", f"{chosen or 'none'}; {skipped}, in {gate['passes']} passes"


def _limits(answer: Answer) -> Iterator[Row]:
    if answer.spent is not None:
        tokens = "" if answer.spent.tokens is None else f", {answer.spent.tokens} tokens by {answer.spent.tokenizer}"
        yield "budget", f"{answer.spent.chunks} chunks{tokens}"
        yield from (("cut", f"{name}: {why}") for name, why in answer.spent.cut)
    if answer.deadline:
        met = "met" if answer.deadline["met"] else "not met"
        yield "deadline", f"{answer.deadline['ms']:g} ms, {met}: {', '.join(answer.deadline['done'])}"
