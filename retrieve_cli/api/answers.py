"""Answers and results as Python programs and notebooks have them: sequences, rows of a table, one screen of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, overload

from retrieve_cli.contracts import Json
from retrieve_cli.errors import Unavailable, one_line, printable
from retrieve_cli.search.answer import Answer, Result

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = 20
"""Results of an answer that are printed."""
_NOTES, _NOTE, _NAME, _TEXT = 3, 100, 60, 160
"""Notices that are printed, and characters of a notice, a name and a text."""
_FIELDS = ("description", "license", "group", "keywords", "source")
"""Keys that each record has, beside its name and address."""
COLUMNS = ("rank", "id", "doc_id", "name", "score", "relevance", "url", "text", *_FIELDS)
"""Columns that the rows of every answer have. Columns for the other keys of a record follow."""


class _NotADataclass:
    """Hides the fields from tables, which would take these for columns instead of the keys of the mapping."""

    def __get__(self, _: object, kind: type) -> Any:
        raise AttributeError("__dataclass_fields__")


class IndexResult(Result):
    """One result. It is a mapping, too: `dict(result)` is its row of a table, `result["license"]` a value of it.

    The keys are `COLUMNS`, then the other keys of the record. One of these with the name of a column is
    `metadata.NAME`.
    """

    rank: int = 0
    """Its rank, from 1 on the first page."""

    __dataclass_fields__: ClassVar[Any] = _NotADataclass()
    __contains__: ClassVar[Any] = Mapping.__contains__
    keys: ClassVar[Any] = Mapping.keys
    values: ClassVar[Any] = Mapping.values
    items: ClassVar[Any] = Mapping.items
    get: ClassVar[Any] = Mapping.get

    @property
    def _row(self) -> dict[str, Json]:
        attributes = {name: getattr(self, name) for name in COLUMNS[: -len(_FIELDS)]}
        row = {**attributes, **{name: self.record.get(name) for name in _FIELDS}}
        if data := {key: value for key, value in self.record.get("supporting_data", {}).items() if value}:
            row["supporting_data"] = data
        own: Mapping[str, Json] = self.record.get("metadata", {})
        return {**row, **{f"metadata.{key}" if key in row else key: value for key, value in own.items()}}

    def __getitem__(self, key: str) -> Json:
        return self._row[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._row)

    def __len__(self) -> int:
        return len(self._row)

    def __repr__(self) -> str:
        shown = f"rank={self.rank}, doc_id={_short(self.doc_id)!r}, name={_short(self.name)!r}, score={self.score:#.3g}"
        return printable(f"Result({shown}, text={one_line(self.text, _TEXT)!r})")


Mapping.register(IndexResult)


class IndexAnswer(Answer):
    """An answer to one query: a sequence of its `results`, best first, and how they came about."""

    results: tuple[IndexResult, ...]
    related: tuple[IndexResult, ...] = ()

    @classmethod
    def of(cls, answer: Answer) -> IndexAnswer:
        """Return an answer with what only programs need."""
        values: dict[str, Any] = {name: getattr(answer, name) for name in answer.__struct_fields__}
        values["results"] = tuple(_ranked(result, rank) for rank, result in answer.ranked)
        values["related"] = tuple(_ranked(result, rank) for rank, result in enumerate(answer.related, 1))
        return cls(**values)

    def __iter__(self) -> Iterator[IndexResult]:
        return iter(self.results)

    def __len__(self) -> int:
        """Number of results."""
        return len(self.results)

    @overload
    def __getitem__(self, place: int) -> IndexResult: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[IndexResult, ...]: ...

    def __getitem__(self, place: int | slice) -> IndexResult | tuple[IndexResult, ...]:
        return self.results[place]

    def to_json(self) -> dict[str, Json]:
        """Return the object that `retrieve query --json` prints for this answer."""
        from retrieve_cli.output.formats import answer_json

        return answer_json(self)

    def to_dicts(self) -> list[dict[str, Json]]:
        """Return a flat dict for each result: `rank`, `id` (of its chunk), `doc_id` (of its record), `name`, `score`,
        `relevance`, `url`, `text`, `description`, `license`, `group`, `keywords` and `source`, then the other keys of
        its record; one with the name of a column is `metadata.NAME`."""
        return [dict(result) for result in self.results]

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame with a row for each result, of the columns of `to_dicts`.

        Raises:
            Unavailable: pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise Unavailable("the package pandas is not installed", hint="pip install pandas") from error
        return pd.DataFrame(self.to_dicts(), columns=None if self.results else list(COLUMNS))

    def __repr__(self) -> str:
        rows = [(f"{result.rank:>4}", _short(result.doc_id), f"{result.score:>#7.3g}", _short(result.name))
                for result in self.results[:_SHOWN]]  # fmt: skip
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [self._heading, *("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows), *self._notes]
        return "\n".join(map(printable, lines))

    def _repr_html_(self) -> str:
        """Return a table for a notebook; everything in it is escaped."""
        cells = [(str(result.rank), _linked(result), f"{result.score:#.3g}", _html(one_line(result.text, _TEXT)))
                 for result in self.results[:_SHOWN]]  # fmt: skip
        body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in cells)
        head = "".join(f"<th>{name}</th>" for name in ("rank", "name", "score", "text"))
        notes = "".join(f"<p>{_html(note)}</p>" for note in self._notes)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f"<p>{_html(self._heading)}</p>{table}{notes}"

    @property
    def _heading(self) -> str:
        found = f"{len(self.results):,} of {self.total_matches:,} matches"
        return f"Answer to {_short(self.query.text)!r}: {found}"

    @property
    def _notes(self) -> list[str]:
        """The number of results that are not printed, the retrievers that did not run, and the notices."""
        more = len(self.results) - _SHOWN
        skipped = [f"skipped: {name}: {reason}" for name, reason in self.strategies_skipped.items()]
        notes = [*skipped, *self.notices, *([self.stale] if self.stale else [])]
        lines = [one_line(note, _NOTE) for note in notes[:_NOTES]]
        return [*([f"… and {more:,} more"] if more > 0 else []), *lines]


def _ranked(result: Result, rank: int) -> IndexResult:
    return IndexResult(**{name: getattr(result, name) for name in result.__struct_fields__}, rank=rank)


def _short(text: str) -> str:
    return one_line(text, _NAME)


def _html(text: str) -> str:
    from html import escape  # its table of entities is of no use to a command

    return escape(printable(text))


def _linked(result: IndexResult) -> str:
    name = _html(_short(result.name))
    if not (result.url or "").startswith(("https://", "http://")):
        return name
    return f'<a href="{_html(str(result.url))}" rel="noopener noreferrer">{name}</a>'
