"""Judgments of an interactive session: grades from typed lines, and a gold file that is complete at any moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.evaluation.judgments import check_grade
from retrieve_cli.evaluation.scaffold import gold_line, write
from retrieve_cli.storage.generation import Generation

FORM = "type a query, then on the next line its relevant results: 1 3, or with grades 1:3 3:1"
"""Form of the lines of a session."""


class Judged:
    """Judged queries of a session; the file is complete after each of them."""

    def __init__(self, generation: Generation, path: Path) -> None:
        self._generation = generation
        self._path = path
        self._ids = frozenset(map(generation.record_id, range(len(generation.records))))
        self._grades: dict[str, Mapping[str, int]] = {}

    def __len__(self) -> int:
        return len(self._grades)

    def grades(self, judgment: str, shown: Sequence[str]) -> dict[str, int]:
        """Return grades by record id: `1 3` are the first and the third result, `3:2` has grade 2.

        Any record of the index may be named by its id. Grade 0 is judged and not relevant.

        Raises:
            UsageError: a word has another form, or judges a record again.
        """
        found: dict[str, int] = {}
        for word in self._words(judgment):
            name, grade = self._judgment(word, shown)
            if name in found:
                raise UsageError(f"{quoted(name)} is judged twice", hint="give each record one grade")
            found[name] = grade
        return found

    def keep(self, query: str, grades: Mapping[str, int]) -> bool:
        """Write a judged query, replacing an earlier judgment of it. Return False if no record is relevant to it."""
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
        """Yield the words between blanks and commas; an id may contain commas."""
        for part in judgment.split():
            yield from (part,) if part in self._ids else filter(None, part.split(","))

    def _judgment(self, word: str, shown: Sequence[str]) -> tuple[str, int]:
        """Return the id and grade of `3`, `3:2`, `id` or `id:2`."""
        if (name := self._named(word, shown)) is not None:
            return name, 1
        first, _, grade = word.rpartition(":")
        if _whole(grade) and (name := self._named(first, shown)) is not None:
            check_grade(int(grade), repr(word))
            return name, int(grade)
        if _whole(word.partition(":")[0]):
            raise UsageError(f"there is no result {quoted(word)}; {len(shown)} were shown", hint=FORM)
        raise UsageError(f"{quoted(word)} is neither the number of a result nor the id of a record", hint=FORM)

    def _named(self, word: str, shown: Sequence[str]) -> str | None:
        """Return the record of a number in the list, or of an id."""
        if _whole(word) and 1 <= int(word) <= len(shown):
            return shown[int(word) - 1]
        return word if word in self._ids else None


def _whole(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS


_DIGITS = 9
"""Digits of a typed number or grade."""
