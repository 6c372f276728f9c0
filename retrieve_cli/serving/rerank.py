"""Scores of pairs, in the form of Jina and Cohere or in that of TEI.

https://docs.cohere.com/reference/rerank, https://huggingface.github.io/text-embeddings-inference
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from retrieve_cli.contracts import Json, PairScorer
from retrieve_cli.serving.answers import finite
from retrieve_cli.serving.requests import Limits, Rejected, Work, check_fields, check_model, flag, read_texts

if TYPE_CHECKING:
    from retrieve_cli.contracts import Vectors

_FIELDS = ("model", "query", "documents", "top_n", "return_documents")
_FIELDS_TEI = ("query", "texts", "raw_scores", "return_text", "truncate")


class Rerank:
    """Scores of texts for a query, if there is a scorer."""

    def __init__(self, scorer: PairScorer | None, limits: Limits) -> None:
        self._scorer = scorer
        self._limits = limits

    def understand(self, payload: dict[str, Any]) -> Work:
        """Return the work of a rerank request; one with `texts` is in TEI's form. Raises: Rejected."""
        scorer = self._scorer
        if scorer is None:
            said = "this server has no reranker: set rerank.backend to cross_encoder and rerank.model, then restart it"
            raise Rejected(501, said, code="no_reranker")
        tei = "texts" in payload
        check_fields(payload, _FIELDS_TEI if tei else _FIELDS)
        # Not 404: a client that tries the other form after a 404 would get scores there, as TEI names no model.
        check_model(payload, dict.fromkeys((scorer.name, scorer.name.rpartition("/")[2])), status=501)
        query = payload.get("query")
        if not isinstance(query, str) or not query.strip():
            raise Rejected(400, "`query` must be a text that is not blank", param="query")
        key = "texts" if tei else "documents"
        texts = read_texts(_plain(payload.get(key)), key, self._limits, blank=True)
        if flag(payload, "raw_scores", default=True) is False:
            said = "scores are on the model's own scale: omit `raw_scores`, or set it to true"
            raise Rejected(400, said, param="raw_scores")
        flag(payload, "truncate")
        shown = flag(payload, "return_text" if tei else "return_documents")
        top = payload.get("top_n", len(texts))
        if type(top) is not int or top < 1:
            raise Rejected(400, "`top_n` must be a whole number above 0", param="top_n")
        rows = _rows_tei if tei else _rows
        return lambda: rows(scorer.name, finite(scorer.score(query, texts)), texts if shown else None, top)


def _plain(documents: Json) -> Json:
    """Return documents as texts, if they are objects with a `text`."""
    if not isinstance(documents, list):
        return documents
    return [item.get("text") if isinstance(item, dict) else item for item in documents]


def _rows(name: str, scores: Vectors, texts: Sequence[str] | None, top: int) -> Json:
    """Return scores in Jina's and Cohere's form, best first."""
    found = [
        {"index": place, "relevance_score": scores[place], **({"document": {"text": texts[place]}} if texts else {})}
        for place in _best_first(scores)[:top]
    ]
    return {"model": name, "results": found}


def _rows_tei(_: str, scores: Vectors, texts: Sequence[str] | None, top: int) -> Json:
    """Return scores in TEI's form, best first."""
    return [
        {"index": place, "score": scores[place], **({"text": texts[place]} if texts else {})}
        for place in _best_first(scores)[:top]
    ]


def _best_first(scores: Vectors) -> list[int]:
    return sorted(range(len(scores)), key=lambda place: (-scores[place], place))
