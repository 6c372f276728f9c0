"""Answers to json, jsonl, csv, md and trec, as text."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence

import orjson

from retrieve_cli.contracts import Evidence, Json, Reranked
from retrieve_cli.errors import escaped_json, printable
from retrieve_cli.frozen import asdict
from retrieve_cli.output.places import boxes, known_keys, linked, page_keys, pages, span_of
from retrieve_cli.search.answer import Answer, Bundle, Result, Span
from retrieve_cli.search.places import content_type
from retrieve_cli.storage.records.sections import facets_of

SCHEMA_VERSION = 1
RUN_TAG = "retrieve"


def dump(value: Json) -> str:
    """Return a value as one line of JSON."""
    return escaped_json(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY).decode())


def document(value: Mapping[str, Json]) -> str:
    """Return an object that a command prints, as one line of JSON: with the version of its schema first."""
    return dump({"schema_version": SCHEMA_VERSION, **value})


def answer_json(answer: Answer) -> dict[str, Json]:
    """Return the JSON object of one answer.

    `total_results` are shown, `total_matches` is the number of records (with --chunks, of chunks) that any retriever
    matched: they share a term with the query, or are among the nearest by their vectors, up to the retrieval depth.
    Filters, tenants and exclusions apply; records that are only reached over edges are not counted.
    `candidates_considered` are the hits on the retrievers' lists, from which the results were made.

    Of a result, `score` is the score of the ranking, by which results are ordered; `retrieval_score` is the reranker's
    own score, on its scale, of a result that it scored, else the score of the retrieval (`final_score` is the same
    number).
    `relevance` is from 0 to 1: the calibrated confidence, else the score of a reranker with that scale, else null.
    `highlights` are pairs of offsets into `content`, in characters, of words that share a term with the query.

    `page` and `page_end` are the numbers of pages in the file, from 1, `page_label` is the printed label of the first
    one, `anchor` the name that a link can lead to; each is null if unknown. With `explain`, `boxes` has one rectangle
    for each line: page, left, top, right and bottom edge in points from the top left corner of the page as displayed.

    `facets` are the values of fields among the records that match, for a field that filters concern without these
    filters: `value` and `count`, most frequent first, at most 50; `facet_others` has the numbers of further values.

    `removed` is the number of results by threshold that removed them. With a reranker that picks, `picked` is true.

    `related` are records that the results link to and that are not among them, best first, ranked from 1: objects as
    in `results`, each with the `path` that leads to it, and a `score` on the scale of the results. A brief
    answer has their ids, names, addresses, paths and scores alone.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "query_id": answer.query.id,
        "query": answer.query.text,
        "clean_query": answer.question.clean,
        "enhanced_query": answer.question.enhanced,
        "excluded": list(answer.question.excluded),
        "filters": _filters_json(answer.question.filters),
        "results": [_result_json(rank, result, answer) for rank, result in answer.ranked],
        "related": [_related_json(rank, result, answer) for rank, result in enumerate(answer.related, 1)],
        "total_results": len(answer.results),
        "total_matches": answer.total_matches,
        "strategies_used": list(answer.strategies_used),
        "strategies_skipped": dict(answer.strategies_skipped),
        "fusion_method": answer.fusion_method,
        "reranked": answer.reranked,
        "pipeline": answer.pipeline,
        "pipeline_info": {
            "engine_used": answer.engine,
            "reranked": answer.reranked,
            "rerank_strategy": answer.rerank_strategy,
            "candidates_considered": answer.candidates_considered,
        },
        "generation": answer.generation,
        **({"timings_ms": dict(answer.timings_ms)} if answer.timings_ms else {}),
        **_asked_for(answer),
    }


def _asked_for(answer: Answer) -> dict[str, Json]:
    """The keys that only some answers have."""
    # By word of the query that no record has, the words that are searched for, the best one first.
    corrections = [{"word": each.word, "searched": list(each.searched)} for each in answer.question.corrections]
    return {
        **({"without": list(answer.question.without)} if answer.question.without else {}),
        **({"synonyms": list(answer.question.synonyms)} if answer.question.synonyms else {}),
        **({"corrections": corrections} if corrections else {}),
        **({"confidence": dict(answer.confidence)} if answer.confidence else {}),
        **({"deadline": dict(answer.deadline)} if answer.deadline else {}),
        **({"notices": list(answer.notices)} if answer.notices else {}),
        **({"removed": answer.removed} if answer.removed else {}),
        **({"attempts": [asdict(attempt) for attempt in answer.attempts]} if answer.attempts else {}),
        **({"budget": answer.spent.as_json()} if answer.spent else {}),
        **({"trace": dict(answer.trace)} if answer.trace else {}),
        **(_facets_json(answer) if answer.facets else {}),
        **({"run_id": answer.run_id} if answer.run_id else {}),
    }


def _facets_json(answer: Answer) -> dict[str, Json]:
    """By field, the values of the records that match, with their numbers of records; and the numbers of values that
    are not listed."""
    listed = {
        field: [{"value": value, "count": count} for value, count in facet.values]
        for field, facet in answer.facets.items()
    }
    others = {field: facet.others for field, facet in answer.facets.items() if facet.others}
    return {"facets": listed, **({"facet_others": others} if others else {})}


def _filters_json(conditions: Sequence[tuple[str, str]]) -> dict[str, Json]:
    fields: dict[str, list[str]] = {}
    for field, condition in conditions:
        fields.setdefault(field, []).append(condition)
    return {field: values[0] if len(values) == 1 else values for field, values in fields.items()}


def _result_json(rank: int, result: Result, answer: Answer) -> dict[str, Json]:
    record = result.record
    return {
        "rank": rank,
        "id": result.hit.id,
        "doc_id": record["id"],
        "score": result.hit.score,
        "retrieval_score": result.retrieval_score,
        "final_score": result.retrieval_score,
        "relevance": result.relevance,
        **({} if result.confidence is None else {"confidence": result.confidence}),
        **{key: record[key] for key in ("name", "description", "url", "keywords", "license", "group")},
        "supporting_data": {
            "modalities": [],
            "dimensions": [],
            "formats": [],
            "demo_url": None,
            **record["supporting_data"],
        },
        **_passage_json(result, answer),
        **({} if result.context is None else {"context": _span_json(result.context, answer)}),
        "freshness": result.freshness,
        **({} if result.bundle is None else {"bundle": _bundle_json(result.bundle)}),
        **({} if result.hit.path is None else {"path": result.hit.path}),
        **({} if result.hit.topped_up is None else {"topped_up": True}),
        **({} if result.picked is None else {"picked": result.picked}),
        **({} if result.hit.reranked is None else {"rerank": _rerank_json(result.hit.reranked)}),
        "strategies_used": answer.strategies_of(result),
        "source_scores": {evidence.source: evidence_json(evidence) for evidence in result.hit.evidence},
        **({"why": _why(rank, result, answer)} if answer.explain else {}),
    }


def _related_json(rank: int, result: Result, answer: Answer) -> dict[str, Json]:
    if not answer.brief:
        return _result_json(rank, result, answer)
    record, path = result.record, result.hit.path
    named = {"rank": rank, "id": result.hit.id, "doc_id": record["id"], "score": result.hit.score}
    return {**named, "name": record["name"], "url": record["url"], **({} if path is None else {"path": path})}


def _passage_json(result: Result, answer: Answer) -> dict[str, Json]:
    chunk = result.chunk
    return {
        "content": result.text,
        "content_type": content_type(chunk),
        "highlights": [list(span) for span in answer.matches(result.text)],
        "header": result.header or None,
        "section": chunk["section"],
        **({"sections": chunk["sections"]} if "sections" in chunk else {}),
        **page_keys(result.place),
        **(boxes(result.place) if answer.explain else {}),
        **({"facets": facets} if (facets := facets_of(chunk)) else {}),
        "metadata": {
            **result.record["metadata"],
            "source": chunk["source"],
            "chunk_index": chunk["index"],
            **{key: chunk[key] for key in ("start_line", "end_line", "start", "end")},
        },
    }


def _why(rank: int, result: Result, answer: Answer) -> list[str]:
    from retrieve_cli.output.explanation import of_result
    from retrieve_cli.output.reasons import rank_before_budget, why

    parts = (f"{label}: {text}" for label, text in of_result(answer, result))
    return [why(result, rank=rank_before_budget(answer, rank)), *parts]


def _span_json(span: Span, answer: Answer) -> dict[str, Json]:
    """Start and end of the content, its pages if it has some, and the hits that it includes."""
    places = {key: getattr(span, key) for key in ("start_line", "end_line", "start", "end")}
    in_pages = {**known_keys(span.place), **(boxes(span.place) if answer.explain else {})}
    return {"chunks": list(span.chunk_ids), "merged": list(span.merged), **places, **in_pages}


def _bundle_json(bundle: Bundle) -> dict[str, Json]:
    needs = []
    for need in bundle.needs:
        outside = {"outside_filter": True} if need.outside_filter else {}
        needs.append({"id": need.id, "name": need.name, "content": need.text, **outside})
    return {"needs": needs, "cycles": [list(circle) for circle in bundle.cycles]}


def evidence_json(evidence: Evidence) -> dict[str, Json]:
    """Return the part of one retriever in a score."""
    return {name: getattr(evidence, name) for name in ("rank", "score", "normalized", "weight")}


def _rerank_json(moved: Reranked) -> dict[str, Json]:
    before = {"rank_before": moved.before, "score_before": moved.retrieval_score}
    return {"scorer": moved.scorer, **before, "score": moved.score, "part": moved.part}


def as_json(answers: Sequence[Answer]) -> str:
    """Return an indented object for each answer."""
    objects = (orjson.dumps(answer_json(answer), option=orjson.OPT_INDENT_2).decode() for answer in answers)
    return "".join(escaped_json(text) + "\n" for text in objects)


def answer_bytes(answer: Answer) -> bytes:
    """Return the answer as `retrieve query --json --no-timing` prints it: equal requests give equal bytes."""
    return as_json([answer.without_times()]).encode()


def as_json_lines(answers: Sequence[Answer]) -> str:
    """Return an answer a line: json and jsonl of a batch."""
    return lines(map(answer_json, answers))


def as_jsonl(answers: Sequence[Answer]) -> str:
    """Return a result a line, with the id of its query."""
    return lines(
        {"query_id": answer.query.id, **_result_json(rank, result, answer)}
        for answer in answers
        for rank, result in answer.ranked
    )


def lines(values: Iterable[Json]) -> str:
    """Return a value a line."""
    return "".join(dump(value) + "\n" for value in values)


def as_csv(answers: Sequence[Answer]) -> str:
    """Return a header and one result a row (RFC 4180)."""
    columns = (
        "query_id rank id doc_id score name url section source start_line content page page_end page_label".split()
    )
    if any(answer.confidence for answer in answers):
        columns.insert(columns.index("score") + 1, "confidence")
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, extrasaction="ignore")
    writer.writeheader()
    for answer in answers:
        for rank, result in answer.ranked:
            row = _result_json(rank, result, answer)
            place = {key: row["metadata"][key] for key in ("source", "start_line")}
            cells = {**row, **place, "query_id": answer.query.id}
            writer.writerow({column: csv_cell(cells.get(column)) for column in columns})
    return out.getvalue()


def csv_cell(value: Json) -> Json:
    """Return a cell that neither drives a terminal nor is a formula to a spreadsheet: a text that begins like one is
    quoted by an apostrophe, as OWASP's advice on CSV injection has it."""
    if not isinstance(value, str):
        return value
    text = "\n".join(printable(line) for line in value.replace("\t", " ").split("\n"))
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def as_markdown(answers: Sequence[Answer]) -> str:
    """Return a numbered list under each query."""
    # With patterns that JSON has no use for.
    from retrieve_cli.output.reasons import ALSO_NEEDED, path_in_words, rank_before_budget, why
    from retrieve_cli.output.snippet import ROOM, snippet

    parts = []
    for answer in answers:
        parts += [f"## {answer.query.text}", ""]
        for rank, result in answer.ranked:
            span = span_of(result)
            name, url = result.record["name"], linked(result.record["url"] or "", span)
            where = f"{numbers} " if (numbers := pages(span.place)) else ""
            title = f"[{name}]({url})" if url else name
            parts.append(f"{rank}. **{title}** `{result.hit.id}` {where}{result.hit.score:.4f}")
            parts.append(f"   - {why(result, rank=rank_before_budget(answer, rank))}")
            if text := snippet(answer, result).cut(ROOM).text:
                parts.append(f"   > {text}")
        parts += ["", f"### {ALSO_NEEDED}", ""] if answer.related else [""]
        for result in answer.related:
            name, url = result.record["name"], result.record["url"]
            words = path_in_words(result.hit.path or "")
            title = f"[{name}]({url})" if url else name
            parts.append(f"- **{title}** `{result.record['id']}`{f': {words}' if words else ''}")
        parts += [""] if answer.related else []
    return "".join(printable(part) + "\n" for part in parts)


def as_trec(answers: Sequence[Answer]) -> str:
    """Return a TREC run, `qid Q0 docid rank score tag`; ids with white space are percent-encoded."""
    from retrieve_cli.output.trec_runs import lines

    written = []
    for answer in answers:
        hits = [(result_id(answer, result), result.hit.score) for result in answer.results]
        written.append(lines(answer.query.id, hits, tag=RUN_TAG, first=answer.offset + 1))
    return "".join(written)


def trec_notes(answers: Sequence[Answer]) -> list[str]:
    """Return a note if ids of the answers are percent-encoded in their TREC run."""
    from retrieve_cli.output.trec_runs import notes

    documents = [result_id(answer, result) for answer in answers for result in answer.results]
    return notes([answer.query.id for answer in answers if answer.results], documents)


def as_ids(answers: Sequence[Answer]) -> str:
    """Return the ids of results, one a line."""
    return "".join(printable(result_id(answer, result)) + "\n" for answer in answers for result in answer.results)


def result_id(answer: Answer, result: Result) -> str:
    """Return the id of a result: the id of its chunk if chunks are ranked, else the id of its record."""
    return result.hit.id if answer.unit == "chunk" else str(result.record["id"])


FORMATS: Mapping[str, Callable[[Sequence[Answer]], str]] = {
    "json": as_json,
    "jsonl": as_jsonl,
    "csv": as_csv,
    "md": as_markdown,
    "trec": as_trec,
}
BATCH_FORMATS = {**FORMATS, "json": as_json_lines, "jsonl": as_json_lines}
"""Formats of a batch, in which an answer is one line of JSON."""
