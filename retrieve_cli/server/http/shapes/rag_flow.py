"""`POST /api/v1/rag/retrieve`: the request and the answer of design C of docs/seeds.md."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from retrieve_cli.api.choices import SEARCH
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.search.answer import Answer
from retrieve_cli.search.places import content_type
from retrieve_cli.server.http.shapes import shape

_BGE = "bge"
"""The name of design C for a reranking model, in contrast to a chat model."""
_MODELS = ("cross_encoder", "remote")

_COUNT: Json = SEARCH.rows["limit"].schema
_RERANK: Mapping[str, Json] = {
    "enabled": {"type": "boolean"},
    "strategy": shape.text_schema("`bge`, `llm`, or the name of the configured backend."),
    "topK": {**_COUNT, "description": "Results that the reranker passes on."},
    "score": {
        **SEARCH.rows["rerank_min_score"].schema,
        "description": "Least score of the reranker, on its own scale.",
    },
}
SCHEMA = shape.body_schema(
    {
        "query": shape.text_schema("The query."),
        "grade": {**SEARCH.rows["grade"].schema, "description": "Least cosine similarity, if no reranker decides."},
        "similarityTopK": {**_COUNT, "description": "Candidates of the dense retriever."},
        "docIds": {"type": "array", "items": {"type": "string"}, "description": "The only records; none if empty."},
        "engineName": {**SEARCH.rows["engine"].schema, "description": "`naive`: the dense retriever alone."},
        "rerank": shape.body_schema(_RERANK),
    },
    ("query",),
)


def read(payload: Json, tenant: str | None, settings: Settings) -> shape.Read:
    """Return a request. Raises: UsageError."""
    body = shape.body_of(payload, SCHEMA)
    rerank, engine, similar = body.get("rerank", {}), body.get("engineName"), body.get("similarityTopK")
    enabled = rerank.get("enabled")
    used = {} if enabled is False or engine == "naive" else rerank
    strategy, top = used.get("strategy"), used.get("topK")
    backend = settings.rerank.backend
    names: Sequence[str] = ("auto", "maxsim") if backend in ("auto", "maxsim") else (backend,)
    other = () if backend in ("llm", "none") else (_BGE,)  # any reranker that is not a chat model
    if strategy is not None and strategy not in (*names, *other):
        message = f"the strategy of `rerank` is {quoted(strategy)}, and this server has the reranker {names[-1]}"
        raise UsageError(message, hint="omit it, or set rerank.backend in the server's configuration")
    item = {
        "query": body["query"],
        "doc_ids": body.get("docIds"),
        "engine": engine,
        "limit": top or similar or (settings.search.similarity_top_k if engine == "naive" else None),
        "rerank": None if engine == "naive" else enabled,
        "expand": None if engine == "naive" else False,
        "chunks": True,
        "grade": body.get("grade"),
        "similarity_top_k": similar,
        # The design reranks all candidates and takes the order of the reranker alone.
        "rerank_depth": None if similar is None else max(similar, settings.rerank.depth),
        "rerank_interpolate": 1.0,
        "rerank_keep": top,
        "rerank_min_score": used.get("score"),
    }
    return shape.Read(shape.asked_of(item, tenant), lambda answer: render(answer, strategy))


def render(answer: Answer, strategy: str | None = None) -> dict[str, Json]:
    """Return an answer, in the order of `score`: the score of the reranker, which `rerank.score` is compared with;
    without a reranker from 0 to 1, or null. `pipeline.scoreScale` names the scale.

    `totalResults` is the number of results; `pipeline.removed` counts the results that each threshold removed, and
    `pipeline.notices` has facts for the user, such as ids that no document has. `strategy` is the client's name for the
    reranker: it is repeated if that reranker ran.
    """
    scores, reranker = shape.deciding_scores(answer), answer.rerank_strategy if answer.reranked else None
    if strategy == _BGE and reranker in _MODELS:
        reranker = _BGE
    ordered = sorted(
        zip(answer.results, scores.values, strict=True),
        key=lambda pair: -math.inf if pair[1] is None else pair[1],
        reverse=True,
    )
    return {
        "results": [
            {
                "content": result.text,
                "score": score,
                "metadata": {
                    "documentId": result.doc_id,
                    "fileName": shape.file_name(result),
                    "chunkIndex": result.chunk["index"],
                    "pageNumber": result.chunk.get("page"),
                    "contentType": content_type(result.chunk),
                },
            }
            for result, score in ordered
        ],
        "totalResults": len(answer.results),
        "engineUsed": answer.engine,
        "pipeline": {
            "reranked": answer.reranked,
            "rerankStrategy": reranker,
            "candidatesConsidered": answer.candidates_considered,
            "scoreScale": scores.scale,
            **({"removed": answer.removed} if answer.removed else {}),
            **({"notices": list(answer.notices)} if answer.notices else {}),
        },
    }
