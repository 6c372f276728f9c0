"""Account of a run: its answers, and all that decided them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from retrieve_cli.config.saved import kept, shown_addresses
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json, Request
from retrieve_cli.frozen import asdict
from retrieve_cli.http.addresses import shown
from retrieve_cli.output import formats
from retrieve_cli.search.answer import Answer
from retrieve_cli.search.options import SearchOptions
from retrieve_cli.storage.manifest import sha1

INDEXED = "vector_store_retrieval"
"""The mode of answers from an index."""
_OF_RECORD = ("description", "url", "keywords", "license", "supporting_data", "content")
_PLACES = ("source", "chunk_index", "start_line", "end_line", "start", "end")


def configuration(settings: Settings) -> dict[str, Json]:
    """Return the settings that have a part in answers; of a plug-in's, which may hold a secret, their SHA-1."""
    chosen = {name: shown_addresses(section, shown) for name, section in kept(settings).items()}
    plugins = {name: sha1(json.loads(json.dumps(keys, default=str))) for name, keys in settings.plugins.items()}
    value: dict[str, Json] = json.loads(json.dumps({**chosen, "plugins": plugins}, default=str))
    return value


def inputs(answers: Sequence[Answer], options: SearchOptions) -> dict[str, Json]:
    """Return the requests, and the options that hold for all of them."""
    requests = [_request(answer.query) for answer in answers]
    value: dict[str, Json] = json.loads(json.dumps({"options": asdict(options), "requests": requests}))
    return value


def _request(request: Request) -> dict[str, Json]:
    """Return a request as a line of standard input has it; of its files, the names."""
    files = [path.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for path in request.files]
    files += [head.name for head in request.heads]
    names = ("also", "like", "not_like", "filters", "doc_ids", "tenant", "retrievers")
    chosen = {name: value for name in names if (value := getattr(request, name))}
    chosen |= {"files": files} if files else {}
    chosen |= {"doc_ids": ()} if request.doc_ids == () else {}
    return {"id": request.id, "query": request.text, **chosen}


def retrieval(answers: Sequence[Answer], settings: Settings, options: SearchOptions, *, mode: str) -> dict[str, Json]:
    """Return the account of answers: first what holds for all of them, under the names that readers of `retrieval.json`
    know, then each answer."""
    entries = [entry(answer) for answer in answers]
    gating, rerank = asdict(settings.gating), asdict(settings.rerank)
    caps = {"max_results": options.k, "max_chunks": options.max_chunks, "max_tokens": options.max_tokens}
    return {
        "schema_version": formats.SCHEMA_VERSION,
        "mode": mode,
        "queries": list(dict.fromkeys(text for each in entries for text in each["queries"])),
        "gating": {
            **gating,
            "enabled": options.route,
            "candidates": settings.gating.global_candidates,
            "method": "rise of the best records above noise",
            "output": [gate for each in entries for gate in each["gating"]],
        },
        "gated_top_groups": list(dict.fromkeys(name for each in entries for name in each["gated_top_groups"])),
        "rerank": {
            "enabled": any(answer.reranked for answer in answers),
            "strategy": next((answer.rerank_strategy for answer in answers if answer.reranked), None),
            **{key: rerank[key] for key in ("backend", "model", "depth", "keep", "interpolate", "min_score")},
            "moved": sum(each["applied"]["moved_by_reranker"] for each in entries),
        },
        "budgets": {
            **caps,
            "context": options.context,
            "applied": {name: _total(entries, name) for name in ("results", "chunks", "tokens", "cut")},
        },
        "answers": entries,
    }


def _total(entries: Sequence[Mapping[str, Json]], name: str) -> int | None:
    """The sum of what the answers took of a budget; None if it was not counted."""
    counts = [each["budgets"]["applied"][name] for each in entries]
    return None if None in counts else sum(counts)


def entry(answer: Answer) -> dict[str, Json]:
    """Return one answer as a run keeps it: the object of `--json`, and the course of its candidates. A result has its
    places and its scores, and no field of its record but the name."""
    answered = formats.answer_json(answer)
    answered |= {key: [_without_texts(result) for result in answered[key]] for key in ("results", "related")}
    ranks = [
        {"id": result["id"], "before": result["rerank"]["rank_before"], "after": result["rank"]}
        for result in answered["results"]
        if "rerank" in result
    ]
    query = answer.question.query
    searched = [query.text, *(each.text for each in query.also), *(attempt.text for attempt in answer.attempts)]
    gates = list(_gates(answer.trace))
    spent = answer.spent
    chunks = sum(1 if result.context is None else len(result.context) for result in answer.results)
    applied = {
        "results": len(answer.results),
        "chunks": chunks if spent is None else spent.chunks,
        "tokens": None if spent is None else spent.tokens,
        "cut": 0 if spent is None else len(spent.cut),
    }
    return {
        **answered,
        "unit": answer.unit,
        "applied": {
            "results": len(answer.results),
            "moved_by_reranker": sum(each["before"] != each["after"] for each in ranks),
        },
        "stages": [{"stage": name, "hits": hits} for name, hits in answer.stages],
        "queries": list(dict.fromkeys(searched)),
        "gating": gates,
        "gated_top_groups": list(dict.fromkeys(each["group"] for gate in gates for each in gate["chosen"])),
        "rerank": ranks,
        "budgets": {"applied": applied},
    }


def _gates(trace: Mapping[str, Json]) -> Iterator[Mapping[str, Json]]:
    """Choices of a gate for the query, or for each of its texts."""
    if gate := trace.get("gate"):
        yield gate
    for text in trace.get("texts", ()):
        yield from _gates(text.get("trace", {}))


def _without_texts(result: Mapping[str, Json]) -> dict[str, Json]:
    kept = {key: value for key, value in result.items() if key not in _OF_RECORD}
    kept["metadata"] = {key: result["metadata"][key] for key in _PLACES if key in result["metadata"]}
    if "bundle" in result:
        needs = [{key: value for key, value in need.items() if key != "content"} for need in result["bundle"]["needs"]]
        kept["bundle"] = {**result["bundle"], "needs": needs}
    return kept
