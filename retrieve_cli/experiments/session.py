"""What somebody judged who asked the index: grades from what was typed, and a gold file that is whole at any moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.evaluation.judgments import check_grade
from retrieve_cli.experiments.gold_lines import gold_line, write
from retrieve_cli.storage.generation import Generation

FORM = "a line with a query, then one with what is right for it: 1 3, or with grades 1:3 3:1"
"""What a session is told."""


class Judged:
    """The judged queries of a session; its file is whole after each of them."""

    def __init__(self, generation: Generation, path: Path) -> None:
        self._generation = generation
        self._path = path
        self._ids = frozenset(map(generation.record_id, range(len(generation.records))))
        self._grades: dict[str, Mapping[str, int]] = {}

    def __len__(self) -> int:
        return len(self._grades)

    def grades(self, judgment: str, shown: Sequence[str]) -> dict[str, int]:
        """Grades by record id: `1 3` are the first and the third of those shown, `3:2` has grade 2, and any record of
        the index may stand by its id. Grade 0 is judged and not relevant.

        Raises:
            UsageError: a word of it is none of these, or judges a record again.
        """
        found: dict[str, int] = {}
        for word in self._words(judgment):
            name, grade = self._judgment(word, shown)
            if name in found:
                raise UsageError(f"{quoted(name)} is judged twice", hint="give each record one grade")
            found[name] = grade
        return found

    def keep(self, query: str, grades: Mapping[str, int]) -> bool:
        """Writes a judged query; asked again, it is judged anew. False where nothing is right for it."""
        if not any(grades.values()):
            return False
        self._grades[query] = grades
        write(self._lines(), self._path)
        return True

    def _lines(self) -> Iterable[dict[str, Json]]:
        for number, (query, grades) in enumerate(self._grades.items(), 1):
            rows = [self._generation.find_record(name) for name, grade in grades.items() if grade]
            groups = {self._generation.records[row]["group"] for row in rows}
            yield gold_line("session", number, query, grades, groups.pop() if len(groups) == 1 else None)

    def _words(self, judgment: str) -> Iterator[str]:
        """What blanks and commas set apart; an id may have commas."""
        for part in judgment.split():
            yield from (part,) if part in self._ids else filter(None, part.split(","))

    def _judgment(self, word: str, shown: Sequence[str]) -> tuple[str, int]:
        """The id and grade of `3`, `3:2`, `id` or `id:2`."""
        if (name := self._named(word, shown)) is not None:
            return name, 1
        first, _, grade = word.rpartition(":")
        if _whole(grade) and (name := self._named(first, shown)) is not None:
            check_grade(int(grade), repr(word))
            return name, int(grade)
        if _whole(word.partition(":")[0]):
            raise UsageError(f"there is no answer {quoted(word)}; {len(shown)} were shown", hint=FORM)
        raise UsageError(f"{quoted(word)} is neither the number of an answer nor the id of a record", hint=FORM)

    def _named(self, word: str, shown: Sequence[str]) -> str | None:
        """The record that a number of the list means, or else an id."""
        if _whole(word) and 1 <= int(word) <= len(shown):
            return shown[int(word) - 1]
        return word if word in self._ids else None


def _whole(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS


_DIGITS = 9
"""Digits of a number or grade that somebody typed."""
