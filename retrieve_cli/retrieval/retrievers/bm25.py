"""Keyword retrieval: BM25 ranks by the words that a query and a text share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from retrieve_cli.contracts import Analyzer, Card, Chunk, Field, Index, Json, Package, Record, Unit
from retrieve_cli.errors import IndexCorrupt, UsageError, quoted
from retrieve_cli.frozen import asdict
from retrieve_cli.retrieval.retrievers.analyzer import Analyzer as TermAnalyzer
from retrieve_cli.retrieval.retrievers.impacts import LATER, Bm25Index, Bm25Writer, Formula, TermIndex
from retrieve_cli.retrieval.retrievers.retriever import TEXT, Building, IndexWriter, Passages, Retriever, keys_of
from retrieve_cli.storage import pickles
from retrieve_cli.storage.recipe import reading_cards

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import Rows
    from retrieve_cli.retrieval.retrievers.rank_bm25 import RankBm25Writer
    from retrieve_cli.storage.exported import Exported
    from retrieve_cli.storage.generation import Generation


class _Writer:
    """Writer of the artifact from whole records or chunks, with either backend."""

    def __init__(self, rows: Bm25Writer | RankBm25Writer, unit: Unit, *, facets: float) -> None:
        """`facets` is the weight of the facets of chunks as a field; 0: they are not indexed."""
        self._rows = rows
        self._unit = unit
        self._facets = facets
        self._starts: Rows = np.zeros(1, np.int64)

    def reuse(self, older: Generation) -> None:
        file = older.file(RETRIEVER.file)
        self._rows.reuse(pickles.load(file, later=LATER), file.release)  # the whole file was verified
        self._starts = older.starts

    def add(self, record: Record, chunks: Sequence[Chunk]) -> None:
        if self._unit == "record":
            self._rows.add((*record.fields, *self._facets_of(chunks)))
            return
        # The embedded text already contains the name, in the text or the header: add only the rest of its weight.
        weight = next((field.weight for field in record.fields if field.name == "name"), 1.0)
        name = Field("name", record.name, max(weight - 1.0, 0.0))
        for chunk in chunks:
            self._rows.add((name, Field("embedded", chunk.embedded), *self._facets_of([chunk])))

    def _facets_of(self, chunks: Sequence[Chunk]) -> Sequence[Field]:
        """The field with the facets of some chunks, if they are indexed and there are any."""
        text = "\n".join(text for chunk in chunks for text in chunk.facets.values()) if self._facets else ""
        return (Field("facets", text, self._facets),) if text else ()

    def keep(self, record: int) -> None:
        self.keep_all(range(record, record + 1))

    def keep_all(self, records: range) -> None:
        chunks = range(int(self._starts[records.start]), int(self._starts[records.stop]))
        self._rows.keep_all(records if self._unit == "record" else chunks)

    def write(self, path: Path, passages: Passages) -> int:
        return self._rows.write(path)


class Bm25(Retriever[str]):
    """BM25 retriever: ranks by the words that a query and a text share."""

    name = "bm25"
    file = "bm25.pkl"
    form = TEXT
    role = "lexical"
    packages = (Package(("PyStemmer",), "stemming", "english"), Package(("rank-bm25",), "backend", "rank_bm25"))
    tunable: ClassVar[Mapping[str, Sequence[float]]] = {
        "k1": (0.6, 0.9, 1.2, 1.5, 2.0),
        "b": (0.2, 0.4, 0.6, 0.75, 0.9),
    }
    _FORMULA = ("variant", "k1", "b")

    def card(self, building: Building) -> Card:
        chosen = building.settings.bm25
        formula = Formula(chosen.variant, chosen.k1, chosen.b)
        head = {
            "backend": chosen.backend,
            "unit": self._unit(building),
            "analyzer": dict(self._analyzer(building).card),
        }
        card = {**head, **asdict(formula)}
        if chosen.backend == "rank_bm25":
            del card["variant"]  # that package has only one variant
        return {**card, "facets": facets} if (facets := self._facets(building)) else card

    def writer(self, building: Building) -> IndexWriter:
        chosen, unit, analyzer = building.settings.bm25, self._unit(building), self._analyzer(building)
        if chosen.backend == "rank_bm25":
            from retrieve_cli.retrieval.retrievers.rank_bm25 import RankBm25Writer

            rows = RankBm25Writer(analyzer=analyzer, unit=unit, k1=chosen.k1, b=chosen.b)
            return _Writer(rows, unit, facets=self._facets(building))
        formula = Formula(chosen.variant, chosen.k1, chosen.b)
        return _Writer(Bm25Writer(analyzer=analyzer, unit=unit, formula=formula), unit, facets=self._facets(building))

    def open(self, generation: Generation, settings: Settings) -> TermIndex:
        file = generation.file(self.file)
        stored = pickles.load(file, later=LATER)
        backend = stored.get("backend") if isinstance(stored, dict) else None
        if backend == "impacts":
            card = generation.manifest.recipe.retrievers[self.name]
            with reading_cards():
                formula = Formula(**keys_of(card, self._FORMULA))
            index = Bm25Index(stored, file.check_parts, formula=formula)
            index.release = generation.release(self.file)
            return index
        if backend == "rank_bm25":
            from retrieve_cli.retrieval.retrievers.rank_bm25 import RankBm25Index

            file.check()
            return RankBm25Index(stored)
        raise IndexCorrupt(
            f"{self.file} is from an unknown backend {quoted(backend)}", hint="build again: retrieve build"
        )

    def exported(self, index: Index[str]) -> Exported:
        return self._with_impacts(index).exported(self.name)

    def remote(self, index: Index[Any], generation: Generation, settings: Settings) -> Index[str]:
        """Return an index of texts; its vocabulary is that of the local file."""
        from retrieve_cli.retrieval.retrievers.remote_texts import RemoteTexts

        return RemoteTexts(index, self._with_impacts(self.open(generation, settings)))

    def _with_impacts(self, index: Index[str]) -> Bm25Index:
        """Return an index whose rows an engine can hold. Raises: UsageError: it has another backend."""
        if not isinstance(index, Bm25Index):
            hint = f"build with {self.name}.backend: impacts"
            raise UsageError("an engine cannot hold this BM25 index, which has another backend", hint=hint)
        return index

    def built_with(self, card: Card) -> Mapping[str, Json]:
        keys = (*self._FORMULA, "backend", "unit")
        own = {key: card[key] for key in keys if key in card}
        return {**own, **{key: card["analyzer"][key] for key in ("stemming", "stop_words")}}

    def keeps(self, before: Card, after: Card) -> bool:
        return all(before.get(key) == after.get(key) for key in ("unit", "analyzer", "facets"))

    def analyzer(self, index: Index[str]) -> Analyzer | None:
        analyzer: Analyzer | None = getattr(index, "analyzer", None)
        return analyzer

    def varies(self, key: str) -> bool:
        return key in self._FORMULA

    def varied(self, index: Index[str], card: Card, changes: Mapping[str, Json]) -> Index[str]:
        if not changes.keys() <= set(self._FORMULA):
            return super().varied(index, card, changes)
        if not isinstance(index, Bm25Index):
            hint = f"build with {self.name}.backend: impacts"
            raise UsageError(f"the BM25 backend of this index, {card['backend']}, has a fixed formula", hint=hint)
        return index.reweighted(Formula(**{**keys_of(card, self._FORMULA), **changes}))

    def plain(self, generation: Generation) -> Index[str] | None:
        recipe = generation.manifest.recipe
        card = recipe.retrievers[self.name]
        with reading_cards():
            weights = {
                weight for source in recipe.sources.values() for _, weight in source.get("weights", ()) if weight > 0
            }
            weights |= {source["name_weight"] for source in recipe.sources.values() if "name_weight" in source}
            if card["backend"] != "impacts" or not weights - {1.0}:
                return None
            options = card["analyzer"]
            analyzer = TermAnalyzer(stemming=options["stemming"], stop_words=options["stop_words"])
            formula = Formula(**keys_of(card, self._FORMULA))
            writer = Bm25Writer(analyzer=analyzer, unit=card["unit"], formula=formula)
        texts = generation.record_texts() if card["unit"] == "record" else generation.chunk_texts()
        for text in texts:
            writer.add([Field("text", text)])
        return Bm25Index(writer.stored(), formula=formula)

    @staticmethod
    def _unit(building: Building) -> Unit:
        """Return the unit of a row: records for catalogs only, chunks if documents are included, or as configured."""
        if building.settings.bm25.unit != "auto":
            return building.settings.bm25.unit
        return "chunk" if "docs" in building.kinds else "record"

    @staticmethod
    def _facets(building: Building) -> float:
        """Return the weight of the facets of chunks."""
        return building.settings.facets.weight if building.settings.facets.enabled else 0.0

    @staticmethod
    def _analyzer(building: Building) -> TermAnalyzer:
        return TermAnalyzer(stemming=building.settings.bm25.stemming, stop_words=building.settings.bm25.stop_words)


RETRIEVER = Bm25()
