"""Judgments by people: a log of votes beside the index, and the gold file made from it.

    artifacts/judgments/votes.jsonl   every vote, appended and on disk before it is acknowledged
    artifacts/judgments/gold.jsonl    the last vote of each query and record, as `retrieve eval --gold` reads it

The votes of each tenant are in a separate folder. Votes on interleaved lists also show which of two configurations is
better: in team-draft interleaving, a relevant result counts for the ranking that it came from (Radlinski, Kurup,
Joachims 2008, "How does clickthrough data reflect retrieval quality?").

Judgments of an interactive session: grades from typed lines, and a gold file that is complete at any moment.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Literal, NamedTuple

from retrieve_cli.contracts import Json
from retrieve_cli.errors import RetrieveError, UsageError, quoted, unwritable
from retrieve_cli.evaluation.judgments import check_grade
from retrieve_cli.evaluation.scaffold import gold_line, write
from retrieve_cli.frozen import Frozen, asdict
from retrieve_cli.storage import durable, lock
from retrieve_cli.storage.generation import Generation
from retrieve_cli.untrusted import files

_VOTES, _GOLD = "votes.jsonl", "gold.jsonl"
_LONGEST = 10_000
"""Characters of a text of a vote."""


class Vote(Frozen):
    """A judgment of one record for one query."""

    query: str
    id: str
    grade: int | None
    """1: relevant; 0: not relevant; None: taken back."""
    by: str = ""
    team: str = ""
    """`a` or `b`: the configuration that picked the record for an interleaved list; else empty."""
    a: str = ""
    b: str = ""
    """The two configurations of the list."""


class Votes:
    """The votes of one tenant, or of all who have none."""

    def __init__(self, artifacts: Path, tenant: str | None) -> None:
        """The constructor creates nothing."""
        folder = artifacts / "judgments"
        self._folder = folder if tenant is None else folder / sha256(tenant.encode()).hexdigest()[:16]

    @property
    def gold(self) -> Path:
        """The gold file; it exists after the first vote for a relevant record."""
        return self._folder / _GOLD

    def add(self, vote: Vote) -> None:
        """Append a vote, wait until it is on disk, and renew the gold file.

        Raises:
            RetrieveError: the folder cannot be written, or a text is too long.
        """
        if any(isinstance(value, str) and len(value) > _LONGEST for value in asdict(vote).values()):
            raise RetrieveError(f"a text of the judgment has more than {_LONGEST:,} characters", hint="shorten it")
        line = json.dumps({"at": lock.now(), **asdict(vote)}, ensure_ascii=False)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with _appending(self._folder / _VOTES) as descriptor:
                size = os.fstat(descriptor).st_size
                torn = size and os.pread(descriptor, 1, size - 1) != b"\n"  # of a writer that was killed
                os.write(descriptor, (b"\n" if torn else b"") + f"{line}\n".encode("utf-8", "replace"))
                os.fsync(descriptor)
                durable.replace(self.gold, "".join(gold_lines(self.last().values())))
        except OSError as error:
            raise unwritable(self._folder, error) from error

    def last(self, *, a: str | None = None, b: str | None = None) -> dict[tuple[str, str], Vote]:
        """Return the last vote of each query and record that is not taken back; with `a` and `b`, of those on
        interleaved lists of these configurations. Lines that are not votes are skipped."""
        votes: dict[tuple[str, str], Vote] = {}
        for vote in self._read():
            if a is None or (vote.team and (vote.a, vote.b) == (a, b)):
                votes[vote.query, vote.id] = vote
        return {place: vote for place, vote in votes.items() if vote.grade is not None}

    def preference(self, a: str, b: str) -> Preference:
        """Return which of two configurations the interleaved lists prefer."""
        won: dict[str, list[int]] = {}
        for vote in self.last(a=a, b=b).values():
            won.setdefault(vote.query, [0, 0])[vote.team == "b"] += int(vote.grade == 1)
        return preference((first, second) for first, second in won.values())

    def _read(self) -> Iterator[Vote]:
        try:
            text = files.read_text(self._folder / _VOTES, limit=files.JUDGMENTS, encoding="utf-8")
        except FileNotFoundError:
            return
        for line in text.split("\n"):
            try:
                item: Mapping[str, Json] = json.loads(line)
                texts = {key: str(item.get(key, "")) for key in ("query", "id", "by", "team", "a", "b")}
                grade = item["grade"]
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                continue
            if grade in (0, 1, None) and texts["query"] and texts["id"]:
                yield Vote(grade=grade, **texts)


def gold_lines(votes: Iterable[Vote]) -> Iterator[str]:
    """Yield the lines of a gold file: queries with a relevant record, in the order of their first vote. A query of
    which nothing is relevant yet would count as one that no ranking can answer."""
    queries: dict[str, dict[str, int]] = {}
    for vote in votes:
        queries.setdefault(vote.query, {})[vote.id] = vote.grade or 0
    for query, grades in queries.items():
        if any(grades.values()):
            name = sha256(query.encode("utf-8", "replace")).hexdigest()[:12]
            yield json.dumps({"id": name, "query": query, "relevant": grades}, ensure_ascii=False) + "\n"


@contextmanager
def _appending(path: Path) -> Iterator[int]:
    """Yield a file to append to, which no other process appends to at the same time."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


Team = Literal["a", "b"]


class Pick(NamedTuple):
    """A result of the list, and the ranking that picked it."""

    id: str
    team: Team


class Preference(NamedTuple):
    """Queries of which the relevant results came more often from one ranking, and the chance of such a difference."""

    a: int
    b: int
    tied: int
    p: float | None
    """Two-sided p of the sign test over queries; None if no query prefers either."""


def team_draft(first: Sequence[str], second: Sequence[str], *, most: int, seed: str) -> list[Pick]:
    """Return at most `most` results of two rankings. In each round, each ranking picks its best result that is not on
    the list yet; a coin toss, seeded by `seed`, decides which one picks first."""
    rankings: dict[Team, Sequence[str]] = {"a": first, "b": second}
    picks: list[Pick] = []
    taken: set[str] = set()
    places: dict[Team, int] = {"a": 0, "b": 0}
    for round_ in range(most):
        heads = sha256(f"{seed}\0{round_}".encode("utf-8", "replace")).digest()[0] % 2 == 0
        order: tuple[Team, Team] = ("a", "b") if heads else ("b", "a")
        for team in order:
            ranking, place = rankings[team], places[team]
            while place < len(ranking) and ranking[place] in taken:
                place += 1
            places[team] = place
            if place < len(ranking) and len(picks) < most:
                taken.add(ranking[place])
                picks.append(Pick(ranking[place], team))
    return picks


def preference(won: Iterable[tuple[int, int]]) -> Preference:
    """Return which ranking the queries prefer: `won` has the relevant results of both for each query.

    The sign test is the randomisation test on differences that are 1, -1 or 0.
    """
    signs = [(first > second) - (first < second) for first, second in won]
    wins, losses = signs.count(1), signs.count(-1)
    chance = None
    if wins or losses:
        import numpy as np

        from retrieve_cli.evaluation.statistics import randomisation

        chance = randomisation(np.array(signs, np.float64))
    return Preference(wins, losses, signs.count(0), chance)


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
