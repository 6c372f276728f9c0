"""Query texts to what the retrievers are asked with, each by its own model; a model loads at the first text."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

from retrieve_cli.assemble import encoders
from retrieve_cli.config.settings import Settings
from retrieve_cli.errors import Unavailable
from retrieve_cli.frozen import replace

if TYPE_CHECKING:
    from retrieve_cli.contracts import Encoder, SparseEncoder, Vectors
    from retrieve_cli.search.deadline import Deadline
    from retrieve_cli.storage.recipe import Recipe

Q = TypeVar("Q")

_TOKEN = re.compile(r"(?<!\S)(?:format|anatomy):\S+")


class QueryModels:
    """The models that an index was built with; each is loaded once, by the first thread that asks."""

    def __init__(self, settings: Settings, recipe: Recipe, loaded: dict[str, Any] | None = None) -> None:
        """`loaded` are the models of other settings with the same values for these models."""
        self._settings = settings
        self._recipe = recipe
        self.loaded = {} if loaded is None else loaded
        self._lock = RLock()

    @property
    def encoder(self) -> Encoder:
        """The encoder that the index was built with. Raises: Unavailable: its model is not on this machine."""
        return self._once("encoder", lambda: encoders.encoder_to_query(self._settings, self._recipe.encoder_card))

    @property
    def sparse(self) -> SparseEncoder:
        """The sparse encoder that the index was built with. Raises as `encoder` does."""
        return self._once("sparse", lambda: encoders.sparse_encoder_to_query(self._settings, self._recipe))

    @property
    def waits(self) -> bool:
        """True if a server encodes."""
        return self._recipe.encoder is not None and self._recipe.encoder_card.family == "remote"

    def is_word(self, word: str) -> bool:
        """Return True if a word is whole in the vocabulary of the encoder: then it is one, though no record has it."""
        known: Callable[[str], bool] = self._once("words", self._words)
        return known(word)

    def _words(self) -> Callable[[str], bool]:
        from retrieve_cli.assemble import tokenizers

        encoder = None
        with suppress(Unavailable):
            encoder = self.encoder if self._recipe.encoder is not None else None
        return tokenizers.whole_words(encoder)

    def hurried(self, within: float | None) -> Encoder:
        """Return the same encoder; a server is given no more than so many seconds, and one try."""
        chosen = self._settings.encoder
        if within is None or not self.waits or within >= chosen.timeout_s:
            return self.encoder
        hurried = replace(chosen, timeout_s=max(within, 0.001), retries=0)
        return encoders.encoder_to_query(replace(self._settings, encoder=hurried), self._recipe.encoder_card)

    def _once(self, name: str, make: Callable[[], Q]) -> Q:
        with self._lock:
            if name not in self.loaded:
                self.loaded[name] = make()
            made: Q = self.loaded[name]
            return made


class QueryForms:
    """The texts of one call as vectors and term weights. Each text is encoded once."""

    def __init__(self, models: QueryModels, deadline: Deadline, say: Callable[[str], None]) -> None:
        self._models = models
        self.deadline = deadline
        self.say = say
        self._known: dict[str, dict[str, Any]] = {}
        self._given: dict[str, Callable[[str], Any]] = {}
        self.seconds = 0.0
        """Seconds that encoding took."""

    def give(self, text: str, vector: Callable[[str], Any]) -> None:
        """Let a function return the vector of a text, for the retriever of a name; None: the text is encoded."""
        self._given[text] = vector

    def known(self, form: str, name: str, texts: Sequence[str]) -> list[Any]:
        """Return texts in a form, for the retriever of a name.

        Raises:
            Unavailable: a model is not on this machine, or its server does not answer.
        """
        if form == "text":
            return list(texts)
        known = self._known.setdefault(form, {})
        while form == "vector" and self._given:
            text, made_of = self._given.popitem()
            if (vector := made_of(name)) is not None:
                known[text] = vector
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            with self.timed():
                prose = [_prose(text) for text in new]
                made = self._vectors(prose) if form == "vector" else self._models.sparse.encode_queries(prose)
                known.update(zip(new, made, strict=True))
        return [known[text] for text in texts]

    def left(self) -> float | None:
        """Return the seconds that the deadline leaves; None without one."""
        return self.deadline.left

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Run an encoding, and count its time."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - begun

    def _vectors(self, texts: Sequence[str]) -> Vectors:
        encoder = self._models.hurried(self.deadline.left)
        before = encoder.truncated
        vectors = encoder.encode_queries(texts)
        # Others may encode meanwhile: that the encoder cut something says nothing yet of these texts.
        if encoder.truncated > before:
            tokenizer, card = encoder.tokenizer, encoder.card
            room = card.max_tokens - tokenizer.special_tokens
            if any(tokenizer.count(card.query_prefix + text) > room for text in texts):
                limit = card.max_tokens
                self.say(f"the dense retriever reads only the first {limit} tokens of a query; this one is longer")
        return vectors


def _prose(text: str) -> str:
    """Return a text without tokens of formats, which are words of the records and not of a language; a text of tokens
    only is unchanged.

    Measured over queries with files: used by term retrievers and rerankers only, the tokens give 0.31 nDCG@10; used by
    the dense retriever as well, 0.29, and there they harm queries with a clear text.
    """
    return " ".join(_TOKEN.sub(" ", text).split()) or text
