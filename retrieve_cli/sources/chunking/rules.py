"""Chunkers by file or source: the first rule that matches a record selects its chunker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from retrieve_cli.contracts import Chunk, Chunker, Json, Record
from retrieve_cli.frozen import Frozen


class Rule(Frozen):
    """A chunker and the records that it applies to."""

    match: str
    """A glob of paths, or the name of a source."""
    fits: Callable[[str], object]
    """Function that returns a true value for a path that matches the glob."""
    chunker: Chunker


class RuledChunker:
    """Chunker that selects, for each record, the first rule that matches its file or its source, else `default`."""

    def __init__(self, default: Chunker, rules: Sequence[Rule], *, sources: Sequence[str], source: str = "") -> None:
        """`sources` are the names of all sources, `source` is the one that is being chunked."""
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
        """Return the same chunker for the records of a source."""
        return RuledChunker(self._default, self._rules, sources=self._sources, source=source)

    def chunk(self, record: Record) -> Iterator[Chunk]:
        """Return the chunks of the record in order."""
        for rule in self._rules:
            if rule.match == self._source or rule.fits(record.source):
                return rule.chunker.chunk(record)
        return self._default.chunk(record)
