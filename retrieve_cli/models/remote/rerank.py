"""Pair scores from a rerank endpoint, in the form of Jina, Cohere, vLLM and Infinity or in the form of TEI.

https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html, "Re-rank API"
https://huggingface.github.io/text-embeddings-inference, POST /rerank
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.http.limits import Clock
from retrieve_cli.models.remote.client import Client, ServerFailed, ServerUnavailable
from retrieve_cli.models.runtimes.tokenizer import readable

if TYPE_CHECKING:
    from retrieve_cli.contracts import Vectors

Form = Literal["auto", "jina", "tei"]

_PATH = "/rerank"
_OTHER_FORM = frozenset({400, 404, 405, 415, 422})
"""Answers of a server that knows the request in another form, or not at all."""
_LARGEST = 3e38
"""A float32 holds no more."""
_TOO_MUCH = (
    "if the batch is too large, raise the server's limit to 32 texts; if a text is too long for the model, build with "
    "a smaller chunking.size"
)


class RemoteScorer:
    """`contracts.PairScorer` whose scores a server computes. Nothing is asked before a score is."""

    def __init__(
        self, client: Client, *, model: str, form: Form = "auto", batch_size: int = 32, max_chars: int | None = None
    ) -> None:
        """`form` auto sends the request of Jina and, if the server rejects it, the request of TEI; the form that works
        is kept.

        `max_chars` cuts each passage, for a server that rejects passages that are too long for its model.
        """
        self._client = client
        self.name = model
        self._form = form
        self._batch_size = batch_size
        self._max_chars = max_chars

    @property
    def unit_scale(self) -> bool:
        """True if a `relevance_score` is asked for, which is from 0 to 1; TEI is asked for raw scores."""
        return self._form == "jina"

    def score(self, query: str, passages: Sequence[str]) -> Vectors:
        """(n,) float32, higher is better. All requests, retries and pauses have the client's `timeout_s` together.

        Raises:
            Unavailable: the server is not there.
            ServerFailed: it answers something else than one finite score a passage.
        """
        texts = [readable(passage)[: self._max_chars] for passage in passages]
        batches = [texts[start : start + self._batch_size] for start in range(0, len(texts), self._batch_size)]
        query = readable(query)
        clock = self._client.clock()
        # The first batch alone finds out the form; the others run side by side.
        first = [self._find_form(query, batches[0], clock)] if batches and self._form == "auto" else []
        rest = batches[len(first) :]
        payloads = [self._payload(self._form, query, batch) for batch in rest]
        others = self._client.ask_all(
            _PATH, payloads, lambda answer, place: self._read(answer, len(rest[place])), hint=_TOO_MUCH, clock=clock
        )
        return np.concatenate([np.zeros(0, dtype=np.float32), *first, *others])

    def _find_form(self, query: str, batch: Sequence[str], clock: Clock) -> Vectors:
        """The scores of a batch, in the first form that the server takes."""
        refused: ServerFailed | ServerUnavailable | None = None
        forms: tuple[Form, ...] = ("jina", "tei")
        for form in forms:
            try:
                payload, read = self._payload(form, query, batch), partial(self._read, count=len(batch))
                scores = self._client.ask(_PATH, payload, read, hint=_TOO_MUCH, clock=clock)
            except (ServerFailed, ServerUnavailable) as error:
                if error.status not in _OTHER_FORM:
                    raise
                # The error of the second form would mislead: the first form is the common one.
                refused = refused or error
            else:
                self._form = form
                return scores
        raise refused or self._client.failure(_PATH, "accepts neither form of request")

    def _payload(self, form: Form, query: str, batch: Sequence[str]) -> dict[str, Any]:
        if form == "tei":
            return {"query": query, "texts": batch, "raw_scores": True, "return_text": False, "truncate": True}
        # Asked for in so many words: some servers give the best few unless they are told how many.
        count = {"top_n": len(batch), "return_documents": False}
        return {"model": self.name, "query": query, "documents": batch, **count}

    def _read(self, answer: Json, count: int) -> Vectors:
        """One score a passage, in the passages' order; servers answer best first."""
        rows = answer.get("results") if isinstance(answer, dict) else answer
        key = "relevance_score" if isinstance(answer, dict) else "score"
        if not isinstance(rows, list):
            raise self._client.failure(_PATH, "answers without a list of results", part=answer)
        if len(rows) != count:
            raise self._client.failure(_PATH, f"answers with {len(rows)} scores for {count} passages")
        scores = np.full(count, np.nan)
        for row in rows:
            place, score = (row.get("index"), row.get(key)) if isinstance(row, dict) else (None, None)
            if type(place) is not int or not 0 <= place < count or not np.isnan(scores[place]):
                what = f"does not number its scores from 0 to {count - 1}, each once, by `index`"
                raise self._client.failure(_PATH, what, part=row)
            if not isinstance(score, int | float) or isinstance(score, bool) or not abs(score) < _LARGEST:
                raise self._client.failure(_PATH, f"gives passage {place} no number as its `{key}`", part=row)
            scores[place] = score
        return scores.astype(np.float32)
