"""The configured reranker, or the reason why it cannot run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from retrieve_cli.assemble import extensions
from retrieve_cli.assemble.encoders import cache_dir
from retrieve_cli.assemble.servers import client
from retrieve_cli.config.query_settings import TOKEN_BACKENDS
from retrieve_cli.config.settings import RerankSettings, Settings
from retrieve_cli.contracts import Encoder, Hit, PairScorer, Query, Scaled, TokenEncoder, TokenVectors, Unit
from retrieve_cli.errors import ModelFailed, RetrieveError, Unavailable, UsageError, printable, shortened
from retrieve_cli.frozen import replace
from retrieve_cli.storage.generation import Generation
from retrieve_cli.storage.segment import TOKENS

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows, Vectors
    from retrieve_cli.models.remote.chat import ListwiseSelector
    from retrieve_cli.models.rerankers.late_interaction import LateInteraction
    from retrieve_cli.retrieval.stages.rerank import Reranker
    from retrieve_cli.storage.token_table import ChunkTokenVectors

BUILD = "build the index with it: retrieve build (rerank.backend: maxsim)"


def reader(
    generation: Generation,
    settings: Settings,
    *,
    unit: Unit,
    encoder: Callable[[], Encoder],
    vectors: Callable[[Rows], Vectors],
    most: int | None = None,
    within: float | None = None,
) -> Reranker | None:
    """Return the reranker; None without one. `vectors` returns the vectors of chunk rows; a chat model picks `most`
    passages; a server has so many seconds (`within`) and one try.

    Raises:
        Unavailable: its model, package or key is not on this machine, or the index lacks token vectors.
        UsageError: the configuration does not name its model, or the server.
    """
    backend = settings.rerank.backend
    if backend not in ("none", *TOKEN_BACKENDS):
        settings.skip_untrusted("rerank", "models")
    if backend == "none" or (backend == "auto" and not generation.has(TOKENS)):
        return None
    if backend in TOKEN_BACKENDS:
        return _late_interaction(generation, unit, encoder, vectors)
    return PairReranker(configured_scorer(settings, most=most, within=within), partial(_chunk_texts, generation))


def configured_scorer(settings: Settings, *, most: int | None = None, within: float | None = None) -> PairScorer:
    """Return the scorer of pairs that the configuration names, a plug-in's too.

    Raises:
        Unavailable, UsageError: as `reader` does.
    """
    backend = settings.rerank.backend
    if backend not in _SCORERS:
        return _PluggedIn(extensions.make("reranker", backend, settings), backend)
    return pair_scorer(settings, most=most, within=within)


def card(settings: Settings, most: int | None) -> object:
    """Return the part of the configuration that makes the reranker: one serves every request that has the same.

    The stage around it decides how many results to pass on, and above which score; a chat model picks as many.
    """
    return replace(settings.rerank, keep=most, min_score=None, depth=1, interpolate=0)


def most_picked(settings: Settings, *, keep: int | None, k: int) -> int | None:
    """Return the number of passages that a chat model picks for `k` results, of which `keep` are passed on; None if
    the reranker does not pick."""
    picks = settings.rerank.backend == "llm" and settings.rerank.prompt == "pick"
    return (k if keep is None else keep) if picks else None


def hurries(settings: Settings, left: float | None) -> bool:
    """Return True if the reranker is a server that has to answer in the time that is left, which is too short."""
    chosen = settings.rerank
    return left is not None and chosen.backend in ("remote", "llm") and left < chosen.timeout_s


def pair_scorer(settings: Settings, *, most: int | None = None, within: float | None = None) -> PairScorer:
    """Return the configured scorer of pairs; `most` and `within` as `reader` takes them."""
    chosen = settings.rerank
    if within is not None:
        chosen = replace(chosen, timeout_s=max(within, 0.001), retries=0)
    if chosen.model is None:
        hint = "set rerank.model"
        raise UsageError(f"rerank.backend {chosen.backend} needs a model, but none is configured", hint=hint)
    return _SCORERS[chosen.backend](settings, chosen, chosen.model, most)


def _remote(_: Settings, chosen: RerankSettings, model: str, __: int | None) -> PairScorer:
    from retrieve_cli.models.remote.rerank import RemoteScorer

    server = client(chosen, "rerank")
    return RemoteScorer(server, model=model)


def _chat_model(_: Settings, chosen: RerankSettings, model: str, most: int | None) -> PairScorer:
    from retrieve_cli.models.remote.chat import ListwiseSelector

    selector = ListwiseSelector(client(chosen, "rerank"), model=model)
    return _Listwise(selector, model, chosen.prompt, most=most)


def _cross_encoder(settings: Settings, chosen: RerankSettings, model: str, _: int | None) -> PairScorer:
    from retrieve_cli.models.rerankers.cross_folder import read_cross_folder
    from retrieve_cli.models.rerankers.scorer import CrossScorer
    from retrieve_cli.models.runtimes.locate import locate

    place = locate(model, settings.models.dir, download=settings.models.auto_download)
    folder = read_cross_folder(place.path, name=place.name)
    return CrossScorer(
        folder,
        cache_dir=cache_dir(settings),
        device=chosen.device,
        max_tokens=min(chosen.max_tokens or folder.model.max_tokens, folder.model.max_tokens),
        batch_size=_BATCH,
    )


_BATCH = 32
"""Pairs that are scored together."""

_SCORERS: Mapping[str, Callable[[Settings, RerankSettings, str, int | None], PairScorer]] = {
    "cross_encoder": _cross_encoder,
    "remote": _remote,
    "llm": _chat_model,
}
"""Constructors of the built-in scorers of pairs, by backend."""


class _Listwise:
    """A chat model as a scorer; it reads all candidates at once, and the first of its order has the highest score."""

    def __init__(self, selector: ListwiseSelector, name: str, prompt: str, *, most: int | None) -> None:
        """`most` is the number of passages to pick, None for all; it applies to the prompt `pick`."""
        self._selector = selector
        self.name = name
        self.picks = prompt == "pick"
        self._most = most

    def score(self, query: str, passages: Sequence[str]) -> Vectors:
        """Return (n,) float32 scores.

        Raises:
            Unavailable: the model gave no usable answer, twice.
        """
        import numpy as np

        if self.picks:
            selection = self._selector.pick(query, passages, count=self._most or len(passages))
        else:
            selection = self._selector.score(query, passages)
        if selection.order is None:
            raise Unavailable(
                f"{self.name} gave no usable answer ({selection.note})", hint="name another model: rerank.model"
            )
        if selection.scores is not None:
            return np.array(selection.scores, np.float32)
        scores = np.zeros(len(passages), np.float32)
        for place, chosen in enumerate(selection.order):
            scores[chosen] = len(passages) - place
        return scores


class _PluggedIn:
    """A plug-in's scorer, whose exceptions end reranking but not the query."""

    def __init__(self, scorer: PairScorer, plugin: str) -> None:
        self._scorer = scorer
        self._plugin = plugin

    @property
    def name(self) -> str:
        return self._scorer.name

    def score(self, query: str, passages: Sequence[str]) -> Vectors:
        """Return (n,) float32 scores. Raises: ModelFailed for an unexpected exception of the plug-in."""
        try:
            return self._scorer.score(query, passages)
        except RetrieveError:
            raise
        except Exception as error:
            message = f"the plug-in {self._plugin} failed: {type(error).__name__}: {shortened(printable(str(error)))}"
            raise ModelFailed(message, hint="fix the plug-in, or choose another reranker: rerank.backend") from error


class PairReranker:
    """A scorer of pairs, applied to the texts of hits."""

    def __init__(self, scorer: PairScorer, texts_of: Callable[[Sequence[Hit]], list[str]]) -> None:
        self._scorer = scorer
        self._texts_of = texts_of

    @property
    def name(self) -> str:
        return self._scorer.name

    @property
    def unit_scale(self) -> bool:
        """True if the scorer's scores are on a scale from 0 to 1."""
        return isinstance(self._scorer, Scaled) and self._scorer.unit_scale

    @property
    def picks(self) -> bool:
        """True if the scorer picks passages and scores the others 0."""
        return isinstance(self._scorer, _Listwise) and self._scorer.picks

    def read(self, query: Query, hits: Sequence[Hit]) -> Vectors:
        """Return (n,) float32: scores of the query with each hit's text."""
        return self._scorer.score(query.text, self._texts_of(hits))


def _chunk_texts(generation: Generation, hits: Sequence[Hit]) -> list[str]:
    """Return the text of each hit's chunk, header included."""
    generation.prefetch([hit.row for hit in hits])
    return [f"{chunk['header']}{chunk['text']}" for chunk in (generation.chunks[hit.row] for hit in hits)]


def _late_interaction(
    generation: Generation, unit: Unit, encoder: Callable[[], Encoder], vectors: Callable[[Rows], Vectors]
) -> LateInteraction:
    """Return late interaction over the token vectors of the index, with the encoder that made them."""
    from retrieve_cli.models.rerankers.late_interaction import LateInteraction
    from retrieve_cli.storage import pickles
    from retrieve_cli.storage.token_table import ChunkTokenVectors, TokenTable

    if not generation.has(TOKENS):
        raise Unavailable("this index has no token vectors", hint=BUILD)

    def tokens() -> ChunkTokenVectors:
        tables = []
        for segment in generation.segments:
            tables.append(TokenTable(pickles.load(segment.file(TOKENS))))
            segment.expect(TOKENS, len(tables[-1]))
        return ChunkTokenVectors(tables, generation.live_chunks)

    def encode(text: str) -> TokenVectors:
        model = encoder()
        if not isinstance(model, TokenEncoder):
            raise Unavailable("the encoder of this index has no token vectors", hint="set rerank.backend: none")
        return model.encode_tokens([text])[0]

    return LateInteraction(
        tokens=tokens,
        encode=encode,
        vectors_of=vectors,
        starts=generation.starts,
        unit=unit,
    )
