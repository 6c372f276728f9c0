"""Chunkers by file or source: the first rule that matches a record decides how it is cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from retrieve_cli.contracts import Chunk, Chunker, Json, Record


@dataclass(frozen=True, slots=True)
class Rule:
    """A chunker, and the records that it cuts."""

    match: str
    """A glob of paths, or the name of a source."""
    fits: Callable[[str], object]
    """True of a path that the glob stands for."""
    chunker: Chunker


class RuledChunker:
    """Cuts each record by the chunker of the first rule that matches its file or its source, else by `default`."""

    def __init__(self, default: Chunker, rules: Sequence[Rule], *, sources: Sequence[str], source: str = "") -> None:
        """`sources` are the names of the sources whose records are cut, `source` the one whose turn it is."""
        self._default = default
        self._rules = rules
        self._sources = sources
        self._source = source

    @property
    def card(self) -> Mapping[str, Json]:
        """The parameters that change the chunks."""
        rules = [
            {**rule.chunker.card, "match": rule.match, "source": rule.match in self._sources} for rule in self._rules
        ]
        return {**self._default.card, "rules": rules}

    def of(self, source: str) -> RuledChunker:
        """The same, for the records of a source."""
        return RuledChunker(self._default, self._rules, sources=self._sources, source=source)

    def chunk(self, record: Record) -> Iterator[Chunk]:
        """The chunks of the record in order."""
        for rule in self._rules:
            if rule.match == self._source or rule.fits(record.source):
                return rule.chunker.chunk(record)
        return self._default.chunk(record)
