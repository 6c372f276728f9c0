"""Passages embedded by workers: units of texts, longest first, to encoders in other processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from retrieve_cli.contracts import Encoder, Json, SparseEncoder, TokenEncoder
from retrieve_cli.errors import ModelFailed, RetrieveError, TextFailed, Unavailable, quoted
from retrieve_cli.frozen import asdict
from retrieve_cli.storage.token_table import PackedTokens, pack

Results: TypeAlias = Iterator[tuple[Sequence[int], Sequence[Any]]]
_NO_START = "use fewer workers if memory is short; build without them: --workers 0"


class Unit(NamedTuple):
    """Texts that a worker encodes in one call."""

    number: int
    form: Literal["vectors", "terms"]
    texts: Sequence[str]


class Encoded(NamedTuple):
    """Results of a unit."""

    number: int
    results: Sequence[Any]
    """For each text a vector with its packed tokens, or its term weights."""
    truncated: int
    """Texts of which only the beginning was read."""


class Encoders(NamedTuple):
    """The encoders of a build."""

    dense: Encoder | None
    sparse: SparseEncoder | None
    keeps_tokens: bool

    @property
    def cards(self) -> Mapping[str, Json]:
        """Everything that decides the encoding of a text."""
        dense = None if self.dense is None else asdict(self.dense.card)
        return {"vectors": dense, "terms": None if self.sparse is None else dict(self.sparse.card)}


class Worker:
    """Encoders in a separate process. A failure to make them is raised by the first unit."""

    def __init__(self, make: Callable[[], Encoders], cards: Mapping[str, Json]) -> None:
        """`cards` are the cards of the encoders in the build's process."""
        self._failure: RetrieveError | None = None
        try:
            self._encoders = make()
            if self._encoders.cards != cards:
                message = "a worker has another model, or another revision of it, than this machine"
                raise Unavailable(message, hint="give every machine the same folder of models")
        except RetrieveError as error:
            self._failure = error

    def encode(self, unit: Unit) -> Encoded:
        """Return the results of a unit. Raises: RetrieveError."""
        if self._failure is not None:
            raise self._failure
        dense, sparse, keeps_tokens = self._encoders
        if unit.form == "terms" and sparse is not None:
            return Encoded(unit.number, sparse.encode_passages(unit.texts), 0)
        if dense is None or not unit.texts:
            return Encoded(unit.number, (), 0)
        before = dense.truncated
        packed: dict[int, PackedTokens] = {}
        if keeps_tokens and isinstance(dense, TokenEncoder):
            vectors = dense.encode_passages_into(unit.texts, lambda index, tokens: packed.update({index: pack(tokens)}))
        else:
            vectors = dense.encode_passages(unit.texts)
        results = [(vector, packed.get(index)) for index, vector in enumerate(vectors)]
        return Encoded(unit.number, results, dense.truncated - before)


class WorkerDied(Exception):
    """A worker is gone, and with it the units under way. The text gives the reason."""


class Crew(Protocol):
    """Workers of one kind."""

    size: int

    def hire(self, count: int) -> object:
        """Start this number of fresh workers, and end the others."""

    def submit(self, unit: Unit) -> None:
        """Have a unit encoded. Raises: WorkerDied."""

    def next(self) -> Encoded:
        """Return the next unit that is done. Raises: WorkerDied, or as the encoder."""

    def close(self) -> None:
        """End all workers at once."""


class PassageWorkers:
    """`contracts.models.EmbeddingWorkers` over a crew."""

    def __init__(self, crew: Crew, unit_characters: int, say: Callable[[str], None]) -> None:
        self._crew = crew
        self._unit_characters = unit_characters
        self._say = say
        self.truncated = 0

    def close(self) -> None:
        self._crew.close()

    def results(self, form: Literal["vectors", "terms"], texts: Sequence[str]) -> Results:
        groups = self._divided(texts)
        queue = deque(Unit(number, form, [texts[index] for index in group]) for number, group in enumerate(groups))
        waiting: dict[int, Unit] = {}
        while queue or waiting:
            try:
                while queue and len(waiting) < 2 * self._crew.size:
                    waiting[queue[0].number] = queue[0]
                    self._crew.submit(queue.popleft())
                encoded = self._crew.next()
            except WorkerDied as died:
                self._say(f"note: a worker ended ({died}); its texts are encoded again one by one")
                self._crew.hire(1)
                for unit in waiting.values():
                    yield from self._repeated(unit, groups[unit.number])
                waiting.clear()
                self._crew.hire(self._crew.size)
                continue
            del waiting[encoded.number]
            self.truncated += encoded.truncated
            yield groups[encoded.number], encoded.results

    def _repeated(self, unit: Unit, indexes: Sequence[int]) -> Results:
        """Yield the results of each text of a unit, from a fresh worker.

        Raises:
            TextFailed: a text ends this worker as well.
            ModelFailed: it ends before the first text.
        """
        current = None
        try:
            self._crew.submit(unit._replace(texts=[]))
            self._crew.next()
            for index, text in zip(indexes, unit.texts, strict=True):
                current = text
                self._crew.submit(unit._replace(texts=[text]))
                encoded = self._crew.next()
                self.truncated += encoded.truncated
                yield [index], encoded.results
        except WorkerDied as died:
            if current is None:
                message = f"a worker ends before it encodes its first text: {died}"
                raise ModelFailed(message, hint=_NO_START) from died
            message = f"two workers ended while they encoded {quoted(current)}: {died}"
            raise TextFailed(message, text=current) from died

    def _divided(self, texts: Sequence[str]) -> list[list[int]]:
        """Return indexes of texts in groups: of similar length, several groups for each worker."""
        total = sum(map(len, texts))
        most = min(self._unit_characters, total // (4 * self._crew.size))
        groups: list[list[int]] = []
        size = most + 1
        for index in sorted(range(len(texts)), key=lambda index: -len(texts[index])):
            if size + len(texts[index]) > most:
                groups.append([])
                size = 0
            groups[-1].append(index)
            size += len(texts[index])
        return groups
