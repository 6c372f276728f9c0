"""The reranker that is configured, or why it cannot run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from retrieve_cli.assemble.encoders import cache_dir
from retrieve_cli.assemble.servers import client
from retrieve_cli.config import Settings
from retrieve_cli.contracts import Encoder, Hit, PairScorer, Query, TokenEncoder, Unit
from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.generation import TOKENS, Generation

if TYPE_CHECKING:
    from retrieve_cli.contracts import Vectors
    from retrieve_cli.encoders.remote.chat import ListwiseSelector
    from retrieve_cli.indexes.tokens import TokenTable
    from retrieve_cli.stages.rerank import Reader

BUILD = "build the index with it: retrieve build (rerank.backend: maxsim)"


def reader(generation: Generation, settings: Settings, *, unit: Unit, encoder: Callable[[], Encoder]) -> Reader | None:
    """What reads hits again; None where nothing is to.

    Raises:
        Unavailable: its model, package or key is not on this machine, or the index has not what it needs.
        UsageError: the configuration does not say which model, or where the server is.
    """
    backend = settings.rerank.backend
    if backend == "none" or (backend == "auto" and TOKENS not in generation.manifest.files):
        return None
    if backend in ("auto", "maxsim"):
        return _MaxSim(generation, unit, encoder)
    return _Pairs(pair_scorer(settings), generation)


def pair_scorer(settings: Settings) -> PairScorer:
    """The scorer of pairs that is configured."""
    chosen = settings.rerank
    if chosen.model is None:
        hint = "name it: rerank.model"
        raise UsageError(f"rerank.backend {chosen.backend} needs a model, and none is named", hint=hint)
    if chosen.backend == "cross_encoder":
        return _cross_encoder(settings, chosen.model)
    server = client(chosen, "rerank")
    if chosen.backend == "remote":
        from retrieve_cli.encoders.remote.rerank import RemoteScorer

        return RemoteScorer(server, model=chosen.model, form=chosen.form, batch_size=chosen.batch_size)
    from retrieve_cli.encoders.remote.chat import ListwiseSelector

    return _Listwise(ListwiseSelector(server, model=chosen.model), chosen.model, chosen.prompt)


def _cross_encoder(settings: Settings, model: str) -> PairScorer:
    from retrieve_cli.encoders.cross.folder import read_cross_folder
    from retrieve_cli.encoders.cross.scorer import CrossScorer
    from retrieve_cli.encoders.locate import locate

    place = locate(model, settings.encoder.models_dir, download=settings.encoder.download)
    folder = read_cross_folder(place.path, name=place.name)
    chosen = settings.rerank
    return CrossScorer(
        folder,
        cache_dir=cache_dir(settings),
        device=chosen.device,
        max_tokens=chosen.max_tokens,
        batch_size=chosen.batch_size,
    )


class _Listwise:
    """A chat model that reads all candidates at once, as a scorer: the first of its order has the highest score."""

    def __init__(self, selector: ListwiseSelector, name: str, prompt: str) -> None:
        self._selector = selector
        self.name = name
        self._prompt = prompt

    def score(self, query: str, passages: Sequence[str]) -> Vectors:
        """(n,) float32.

        Raises:
            Unavailable: the model gave no usable answer, twice.
        """
        import numpy as np

        if self._prompt == "pick":
            selection = self._selector.pick(query, passages, count=len(passages))
        else:
            selection = self._selector.score(query, passages)
        if selection.order is None:
            raise Unavailable(
                f"{self.name} gave no usable answer ({selection.note})", hint="ask again, or another model"
            )
        if selection.scores is not None:
            return np.array(selection.scores, np.float32)
        scores = np.zeros(len(passages), np.float32)
        for place, chosen in enumerate(selection.order):
            scores[chosen] = len(passages) - place
        return scores


class _Pairs:
    """A scorer of pairs, given the texts of hits."""

    def __init__(self, scorer: PairScorer, generation: Generation) -> None:
        self._scorer = scorer
        self._generation = generation

    @property
    def name(self) -> str:
        return self._scorer.name

    def read(self, query: Query, hits: Sequence[Hit]) -> Vectors:
        """(n,) float32: the text of each hit's chunk, with what stands in front of it, against the query."""
        chunks = (self._generation.chunks[hit.row] for hit in hits)
        return self._scorer.score(query.text, [f"{chunk['header']}{chunk['text']}" for chunk in chunks])


class _MaxSim:
    """Late interaction over the token vectors of the index, by the encoder that made them."""

    name = "maxsim"

    def __init__(self, generation: Generation, unit: Unit, encoder: Callable[[], Encoder]) -> None:
        """Raises: Unavailable where the index holds no tokens."""
        if TOKENS not in generation.manifest.files:
            raise Unavailable("this index holds no token vectors", hint=BUILD)
        self._generation = generation
        self._unit = unit
        self._make = encoder

    def read(self, query: Query, hits: Sequence[Hit]) -> Any:
        """(n,) float64: each hit's chunk, or of a record the best of all its chunks."""
        import numpy as np

        from retrieve_cli.encoders.maxsim import Words, maxsim

        table, starts = self._table, self._generation.starts
        (asked,) = self._encoder.encode_tokens([query.text])
        spans = [
            range(int(starts[hit.record]), int(starts[hit.record + 1])) if self._unit == "record" else [hit.row]
            for hit in hits
        ]
        ids, vectors, ends = table.tokens([row for span in spans for row in span])
        lengths = np.sqrt(np.einsum("ij,ij->i", asked.vectors, asked.vectors))[:, None]
        words = Words(asked.vectors / np.maximum(lengths, np.float32(1e-12)), table.idf(asked.ids))
        owners = np.repeat(np.arange(len(hits)), [len(span) for span in spans])
        return maxsim(words, Words(vectors, table.idf(ids)), ends, owners, len(hits))

    @cached_property
    def _table(self) -> TokenTable:
        from retrieve_cli import pickles
        from retrieve_cli.indexes.tokens import TokenTable

        table = TokenTable(pickles.load(self._generation.folder / TOKENS))
        self._generation.expect(TOKENS, len(table))
        return table

    @cached_property
    def _encoder(self) -> TokenEncoder:
        encoder = self._make()
        if not isinstance(encoder, TokenEncoder):
            raise Unavailable("the encoder of this index has no token vectors", hint="set rerank.backend: none")
        return encoder
