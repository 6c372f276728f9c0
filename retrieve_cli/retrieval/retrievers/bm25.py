"""Keyword retrieval: BM25 ranks by the words that a query and a text share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from retrieve_cli.contracts import Analyzer, Card, Chunk, Field, Index, Json, Package, Passages, Record, Unit
from retrieve_cli.contracts.terms.languages import ENGLISH, declared_language, language_of
from retrieve_cli.retrieval.retrievers.analyzer import TextAnalyzer, known_language
from retrieve_cli.retrieval.retrievers.bm25_formula import Formula
from retrieve_cli.retrieval.retrievers.bm25_index import Bm25Index
from retrieve_cli.retrieval.retrievers.retriever import TEXT, Building, IndexWriter, Retriever
from retrieve_cli.storage import pickles
from retrieve_cli.storage.recipe import reading_cards
from retrieve_cli.storage.records.globs import path_glob

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import Rows, Spelling
    from retrieve_cli.retrieval.retrievers.bm25_writer import Bm25Writer
    from retrieve_cli.storage.generation import Generation
    from retrieve_cli.storage.segment import Segment


class _Writer:
    """Writer of the artifact from whole records or chunks."""

    def __init__(self, rows: Bm25Writer, unit: Unit, *, facets: float, language: Callable[[Record], str]) -> None:
        """`facets` is the weight of the facets of chunks as a field; 0: they are not indexed. `language` returns the
        code of the language of a record."""
        self._rows = rows
        self._unit = unit
        self._facets = facets
        self._language = language

    def add(self, record: Record, chunks: Sequence[Chunk]) -> None:
        language = self._language(record)
        if self._unit == "record":
            self._rows.add((*record.fields, *self._facets_of(chunks)), language)
            return
        # The embedded text already contains the name, in the text or the header: add only the rest of its weight.
        weight = next((field.weight for field in record.fields if field.name == "name"), 1.0)
        name = Field("name", record.name, max(weight - 1.0, 0.0))
        for chunk in chunks:
            self._rows.add((name, Field("embedded", chunk.embedded), *self._facets_of([chunk])), language)

    def _facets_of(self, chunks: Sequence[Chunk]) -> Sequence[Field]:
        """The field with the facets of some chunks, if they are indexed and there are any."""
        text = "\n".join(text for chunk in chunks for text in (chunk.facets or {}).values()) if self._facets else ""
        return (Field("facets", text, self._facets),) if text else ()

    def take(self, segment: Segment, records: Rows, chunks: Rows) -> None:
        rows = records if self._unit == "record" else chunks
        self._rows.take(pickles.load(segment.file(RETRIEVER.file)), rows)

    def write(self, path: Path, passages: Passages) -> int:
        return self._rows.write(path)


class Bm25(Retriever[str]):
    """BM25 retriever: ranks by the words that a query and a text share."""

    name = "bm25"
    file = "bm25.pkl"
    form = TEXT
    role = "lexical"
    packages = tuple(Package(("PyStemmer",), "stemming", choice) for choice in ("auto", "english"))
    tunable: ClassVar[Mapping[str, Sequence[float]]] = {
        "k1": (0.9, 1.2, 2.0),
        "b": (0.4, 0.75),
    }

    def card(self, building: Building) -> Card:
        card = {"unit": self._unit(building), "analyzer": dict(self._analyzer(building).card)}
        return {**card, "facets": facets} if (facets := self._facets(building)) else card

    def writer(self, building: Building) -> IndexWriter:
        from retrieve_cli.retrieval.retrievers.bm25_writer import Bm25Writer  # not needed for a query

        chosen, unit, analyzer = building.settings.bm25, self._unit(building), self._analyzer(building)
        language = _Languages(analyzer, chosen.stemming).of if analyzer.adapts else lambda _: ENGLISH
        return _Writer(Bm25Writer(analyzer=analyzer, unit=unit), unit, facets=self._facets(building), language=language)

    def open(self, generation: Generation, settings: Settings) -> Bm25Index:
        contents = [pickles.load(segment.file(self.file)) for segment in generation.segments]
        index = self._opened(generation, contents, settings)
        for segment, stored in zip(generation.segments, contents, strict=True):
            segment.expect(self.file, stored["length"])
        return index

    def _opened(self, generation: Generation, contents: Sequence[Mapping[str, Json]], settings: Settings) -> Bm25Index:
        formula = Formula(settings.bm25.variant, settings.bm25.k1, settings.bm25.b)
        with reading_cards():
            by_record = generation.manifest.recipe.retrievers[self.name]["unit"] == "record"
            live = generation.live if by_record else generation.live_chunks
        return Bm25Index(contents, formula=formula, live=live, lowest=generation.lowest)

    def analyzer(self, index: Index[str]) -> Analyzer | None:
        analyzer: Analyzer | None = getattr(getattr(index, "local", index), "analyzer", None)
        return analyzer

    def languages(self, index: Index[str]) -> Mapping[str, int]:
        return index.rows_by_language() if isinstance(index, Bm25Index) else {}

    def spelling(self, index: Index[str], generation: Generation, *, is_word: Callable[[str], bool]) -> Spelling | None:
        from retrieve_cli.retrieval.retrievers.spelling import WordSpelling

        local = getattr(index, "local", index)  # of an index in an engine
        return WordSpelling(local, generation, is_word=is_word) if isinstance(local, Bm25Index) else None

    def varies(self, key: str) -> bool:
        return key == "variant" or super().varies(key)

    def plain(self, generation: Generation, settings: Settings) -> Index[str] | None:
        from retrieve_cli.retrieval.retrievers.bm25_writer import Bm25Writer

        recipe = generation.manifest.recipe
        card = recipe.retrievers[self.name]
        with reading_cards():
            weights = {
                weight for source in recipe.sources.values() for _, weight in source.get("weights", ()) if weight > 0
            }
            weights |= {source["name_weight"] for source in recipe.sources.values() if "name_weight" in source}
            if not weights - {1.0}:
                return None
            writer = Bm25Writer(analyzer=TextAnalyzer.of_card(card["analyzer"]), unit=card["unit"])
        index = self.open(generation, settings)
        for row, language in enumerate(index.languages()):  # deleted rows too: all keep their number
            text = generation.record_text(row) if index.unit == "record" else generation.chunk_text(row)
            writer.add([Field("text", text)], language)
        return self._opened(generation, [writer.stored()], settings)

    @staticmethod
    def _unit(building: Building) -> Unit:
        """Return the unit of a row: records for catalogs only, chunks if documents are included, or as configured."""
        if building.settings.bm25.unit != "auto":
            return building.settings.bm25.unit
        return "chunk" if "docs" in building.kinds else "record"

    @staticmethod
    def _facets(building: Building) -> float:
        return building.settings.facets.weight if building.settings.facets.enabled else 0.0

    @staticmethod
    def _analyzer(building: Building) -> TextAnalyzer:
        building.settings.expect_trusted("bm25")
        chosen = building.settings.bm25
        rules = {match: known_language(name) for match, name in chosen.languages.items()}
        return TextAnalyzer(
            stemming=chosen.stemming, stop_words=chosen.stop_words, rules=rules, segmenter=chosen.segmenter
        )


class _Languages:
    """Languages of records: by the longest rule that matches, as their metadata declare it, or by their text."""

    def __init__(self, analyzer: TextAnalyzer, stemming: str) -> None:
        rules: Mapping[str, str] = analyzer.card.get("languages", {})
        longest = sorted(rules, key=lambda match: (-len(match), match))
        self._rules = [(path_glob(match).fullmatch, rules[match]) for match in longest]
        self._only = "" if stemming in ("auto", "none", "english") else known_language(stemming)

    def of(self, record: Record) -> str:
        """Return the code of the language of a record."""
        for fits, code in self._rules:
            if fits(record.source) or fits(record.id):
                return code
        return self._only or declared_language(record.metadata) or language_of(record.text)


RETRIEVER = Bm25()
