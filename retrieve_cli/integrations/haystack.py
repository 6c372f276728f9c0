"""A retriever for Haystack, and its filters in the filter language."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from retrieve_cli.api.answers import IndexAnswer
from retrieve_cli.api.writable import WritableIndex, open_index
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.frozen import replace
from retrieve_cli.integrations import metadata_of, missing, scores_of
from retrieve_cli.retrieval.queries.filters import Condition, filters_of, parse

try:
    from haystack import Document, component, default_from_dict, default_to_dict
except ImportError as error:
    raise missing("haystack-ai", "haystack") from error

_COMPARISONS = {
    "==": "eq", "in": "in", "!=": "not", "not in": "not", ">": "gt", ">=": "gte", "<": "lt", "<=": "lte",
}  # fmt: skip
_LIKE = 'for example: {"field": "meta.license", "operator": "==", "value": "MIT"}'


@component
class HaystackRetriever:
    """A component that searches the index in a folder, which it opens when it is first needed.

    Its documents have the ids and the order of `index.search`. The score of a document is the relevance, from 0 to 1,
    if each result has one, else the score of the ranking.
    """

    def __init__(
        self,
        artifacts: str = "artifacts",
        *,
        config: str | None = None,
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
        choices: dict[str, Any] | None = None,
    ) -> None:
        """`filters` are in the syntax of Haystack, `choices` are further choices of each search: `mode`, `rerank` …"""
        self.artifacts, self.config, self.filters, self.top_k, self.choices = artifacts, config, filters, top_k, choices

    @cached_property
    def _index(self) -> WritableIndex:
        return open_index(self.artifacts, config=self.config, generation=None)

    def warm_up(self) -> None:
        """Open the index."""
        _ = self._index

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Return the documents that match; `filters` and `top_k` replace the ones of the component.

        Raises:
            UsageError: the filter language cannot express the filters.
        """
        return _found(self._index.search(query, **self._chosen(filters, top_k)))

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Return the same as `run`."""
        return _found(await self._index.asearch(query, **self._chosen(filters, top_k)))

    def to_dict(self) -> dict[str, Any]:
        """Return the component as a pipeline stores it: the index by its folder."""
        names = ("artifacts", "config", "filters", "top_k", "choices")
        return default_to_dict(self, **{name: getattr(self, name) for name in names})

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> HaystackRetriever:
        """Return the component of `to_dict`."""
        return default_from_dict(cls, data)

    def _chosen(self, filters: dict[str, Any] | None, top_k: int | None) -> Any:
        wanted = filters or self.filters
        written = [str(condition) for condition in conditions_of(wanted)] if wanted else None
        return {**(self.choices or {}), "filters": written, "k": self.top_k if top_k is None else top_k}


def _found(answer: IndexAnswer) -> dict[str, list[Document]]:
    return {"documents": [Document(id=result.id, content=result.text, meta=metadata_of(result), score=score)
                          for result, score in zip(answer, scores_of(answer), strict=True)]}  # fmt: skip


def conditions_of(given: Any, *, negated: bool = False) -> list[Condition]:
    """Return filters of Haystack as conditions that must all hold; `negated` returns the opposite.

    Raises:
        UsageError: they are not filters, or they need an OR of conditions on different fields.
    """
    if not isinstance(given, Mapping):
        raise UsageError(f"a filter is a dict, not {quoted(given)}", hint=_LIKE)
    if "field" in given:
        return [_comparison(given, negated=negated)]
    operator, parts = given.get("operator"), given.get("conditions")
    if operator not in ("AND", "OR", "NOT") or not isinstance(parts, list) or not parts:
        raise UsageError(f"a filter is a comparison or AND, OR or NOT of `conditions`, not {quoted(given)}", hint=_LIKE)
    negated = negated != (operator == "NOT")  # NOT is the opposite of AND
    conditions = [conditions_of(part, negated=negated) for part in parts]
    if len(parts) == 1 or (operator == "OR") == negated:
        return [condition for each in conditions for condition in each]
    return [_either(conditions)]


def _either(parts: list[list[Condition]]) -> Condition:
    """Return the condition that holds if one of them does: one field with any of several values."""
    first = parts[0][0]
    for part in parts:
        if len(part) > 1 or part[0].negated or (part[0].operator, part[0].field) != ("=", first.field):
            raise UsageError(
                f"no filter means either {quoted(str(first))} or {quoted(' and '.join(map(str, part)))}",
                hint="OR joins values of one field (== and in); search once for each of the other conditions",
            )
    values = tuple(dict.fromkeys(value for part in parts for value in part[0].values))
    return replace(first, values=values, globs=frozenset().union(*(part[0].globs for part in parts)))


def _comparison(given: Mapping[str, Any], *, negated: bool) -> Condition:
    field, operator, value = str(given["field"]).removeprefix("meta."), given.get("operator"), given.get("value")
    if operator not in _COMPARISONS:
        raise UsageError(f"a filter has the operator {quoted(operator)}", hint=f"operators: {', '.join(_COMPARISONS)}")
    where = f"`{field}` of the filters"
    if value is None and operator in ("==", "!="):  # records without the field
        (text,) = filters_of({field: {"eq": "x"}}, "the filters")
        condition = replace(parse(text), values=("*",), globs=frozenset("*"), negated=operator == "==")
    elif (operator in ("in", "not in")) != isinstance(value, list):
        raise UsageError(f"{where} has the operator {quoted(operator)} with {quoted(value)}", hint=_LIKE)
    else:
        (text,) = filters_of({field: {_COMPARISONS[operator]: value}}, "the filters")
        condition = parse(text)
    return replace(condition, negated=condition.negated != negated)
