"""Relevant chunks that judged queries name by a file, a heading or a quote, looked up in a generation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.evaluation.judgments import Topic
from retrieve_cli.frozen import replace
from retrieve_cli.storage.generation import live_rows
from retrieve_cli.storage.records.globs import path_glob
from retrieve_cli.storage.records.sections import paths_of

if TYPE_CHECKING:
    from retrieve_cli.contracts import Json
    from retrieve_cli.storage.generation import Generation

_LEVEL = " > "
"""Separator of the levels of a section's path."""
_SHOWN = 3
"""Queries that a note names."""


@dataclass(slots=True)
class RelevantPassages:
    """Relevant chunks, and the records that they belong to, by query, each with its grade."""

    chunks: dict[str, dict[str, int]]
    records: dict[str, dict[str, int]]

    @classmethod
    def of(cls, generation: Generation, topics: Iterable[Topic]) -> RelevantPassages:
        """Look up the relevant chunks of the topics that name some."""
        wanted = [_Wanted.of(topic) for topic in topics if topic.names_chunks]
        found = cls({each.topic.id: {} for each in wanted}, {each.topic.id: {} for each in wanted})
        for row, chunk in enumerate(generation.chunks) if wanted else ():
            words: list[str] = []
            for each in wanted:
                if each.has_place(chunk, generation) and each.has_quote(chunk, words):
                    found.chunks[each.topic.id][generation.chunk_id(row)] = 1
                    found.records[each.topic.id][str(chunk["doc_id"])] = 1
        return found

    def judged(self, topics: Sequence[Topic]) -> list[Topic]:
        """Return the topics; those that name a place and no ids get the records of that place as relevant ones."""
        return [
            replace(topic, grades=self.records[topic.id]) if topic.names_place and not topic.grades else topic
            for topic in topics
        ]

    def check(self, topics: Sequence[Topic], generation: Generation) -> list[str]:
        """Return notes on topics that name no chunk of the index.

        Raises:
            UsageError: every topic names a file or a heading, and the index has none of them.
        """
        placed = [topic for topic in topics if topic.names_place]
        unfound = [topic for topic in placed if not self.chunks[topic.id]]
        shown = ", ".join(f"{quoted(topic.id)}: {_described(topic)}" for topic in unfound[:_SHOWN])
        more = ", …" if len(unfound) > _SHOWN else ""
        if unfound and len(unfound) == len(topics):
            hint = f"files and headings of the index look like {_example(generation)}"
            raise UsageError(f"none of the {len(placed)} files and headings is in the index ({shown}{more})", hint=hint)
        notes = []
        if unfound:
            verbs = "is not in the index and counts" if len(unfound) == 1 else "are not in the index and count"
            many = f"{len(unfound):,} of {len(placed):,} files and headings"
            notes.append(f"{many} {verbs} as missed ({shown}{more})")
        notes += [
            f"the quote of query {quoted(topic.id)} is in no chunk and counts as missed"
            for topic in topics
            if topic.quote is not None and not topic.names_place and not self.chunks[topic.id]
        ]
        return notes


@dataclass(slots=True)
class _Wanted:
    """Conditions on the chunks that are relevant to a topic, all of which must hold."""

    topic: Topic
    file: re.Pattern[str] | None
    levels: Sequence[str]
    quote: str
    relevant: Set[str]
    """Ids that are graded relevant."""
    _files: dict[str, bool] = field(default_factory=dict)
    _sections: dict[tuple[str, ...], bool] = field(default_factory=dict)

    @classmethod
    def of(cls, topic: Topic) -> _Wanted:
        """Return the conditions that a topic states."""
        file = path_glob(topic.file) if topic.file else None
        levels = [] if topic.heading is None else [_plain(level) for level in topic.heading.split(_LEVEL)]
        relevant = {name for name, grade in topic.grades.items() if grade > 0}
        return cls(topic, file, levels, " ".join((topic.quote or "").split()), relevant)

    def has_place(self, chunk: Mapping[str, Json], generation: Generation) -> bool:
        """Return True if a chunk is at the place that the topic names.

        A heading without a file is looked up in the relevant records if there are ids, and in the group if there is
        one: every town has its section on transport.
        """
        if self.file is not None:
            source = str(chunk["source"])
            if source not in self._files:
                self._files[source] = self.file.fullmatch(source) is not None
            if not self._files[source]:
                return False
        if not self.levels:
            return True
        paths = paths_of(chunk)
        if paths not in self._sections:
            self._sections[paths] = any(lies_in(path, self.levels) for path in paths)
        return self._sections[paths] and (self.file is not None or self._belongs(chunk, generation))

    def _belongs(self, chunk: Mapping[str, Json], generation: Generation) -> bool:
        record, group = str(chunk["doc_id"]), self.topic.group
        if self.relevant and record not in self.relevant:
            return False
        if group is None:
            return True
        row = generation.exact_row(record)
        return row is not None and bool(generation.records[row]["group"] == group)

    def has_quote(self, chunk: Mapping[str, Json], words: list[str]) -> bool:
        """Return True if a chunk contains the quote, or if the judgment has no quote.

        Any white space counts as one blank; `words` caches the text in that form for the next topic.
        """
        if not self.quote:
            return True
        if not words:
            words.append(" ".join(str(chunk["text"]).split()))
        return self.quote in words[0]


def lies_in(section: str, levels: Sequence[str]) -> bool:
    """Return True if a section's path has these headings one below the other at any level."""
    path = [*map(_plain, section.split(_LEVEL))]
    return any(path[start : start + len(levels)] == [*levels] for start in range(len(path) - len(levels) + 1))


def _plain(heading: str) -> str:
    return " ".join(heading.casefold().split())


def _described(topic: Topic) -> str:
    parts = (("file", topic.file), ("heading", topic.heading), ("quote", topic.quote))
    return ", ".join(f"{name} {quoted(value)}" for name, value in parts if value is not None)


def _example(generation: Generation) -> str:
    for row in live_rows(generation.live_chunks, len(generation.chunks)):
        chunk = generation.chunks[row]
        if chunk["section"]:
            return f"{quoted(chunk['source'])} and {quoted(str(chunk['section']).split(_LEVEL)[-1])}"
    return quoted(generation.records[generation.in_order()[0]]["source"]) if generation.size else "nothing: it is empty"
