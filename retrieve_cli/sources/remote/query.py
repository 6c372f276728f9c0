"""The text of a SPARQL query: its form, the graph it asks, and one page of its answer after the other.

`{graph}`, `{limit}` and `{offset}` are places to be filled in; what looks like one in a string or a comment stays.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from retrieve_cli.errors import UsageError, quoted

_TOKEN = re.compile(
    r"""
    (?P<skipped> \#[^\n\r]*                                  # a comment
      | <[^<>"{}|^`\\\x00-\x20]*>                            # an IRI
      | \"{3}(?:\"{0,2}(?:[^"\\]|\\.))*+\"{0,3} | '{3}(?:'{0,2}(?:[^'\\]|\\.))*+'{0,3}
      | "(?:[^"\\\n\r]|\\.)*+"? | '(?:[^'\\\n\r]|\\.)*+'?    # strings, to the end where they are not closed
      | [\w.-]*+:(?:[\w.%-]|\\.)*+                          # a prefixed name, or a prefix
      | [?$]\w+ | @[A-Za-z-]+ )                              # a variable, a language
  | (?P<placeholder> <\{graph\}> | \{(?:graph|limit|offset)\} )
  | (?P<words> [\w.-]++ )                                   # keywords and numbers
  | (?P<brace> [{}] )
  | .
    """,
    re.VERBOSE | re.DOTALL,
)
"""SPARQL 1.1 Query, section 19.8, as far as it takes to tell keywords from everything that may look like one.

Each alternative takes all that it looked at, so that nothing is looked at again from its middle: the time grows with
the text alone."""
_WORD = re.compile(r"[A-Za-z_]\w*")
_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"'{}|^`\\]+")
INNER = "{ SELECT DISTINCT ?s WHERE { … } ORDER BY ?s LIMIT {limit} OFFSET {offset} }"
"""How a query is best paged: over the records, not over what is said of them."""


@dataclass(frozen=True, slots=True)
class Template:
    """A query with its graph in place, and with its page to be filled in."""

    form: str
    """SELECT, CONSTRUCT or DESCRIBE."""
    text: str
    page_size: int | None
    appended: bool
    """Whether the page goes behind the query, there being no placeholders for it."""

    @classmethod
    def of(cls, query: str, *, graph: str | None, page_size: int | None) -> Template:
        """Raises: UsageError where the query, the graph and the page size do not fit each other."""
        tokens = list(_TOKEN.finditer(query))
        placeholders = {token[0].strip("<>") for token in tokens if token.lastgroup == "placeholder"}
        words = _words(tokens)
        form = _form(words)
        _check_graph(graph, placeholders)
        paged = placeholders & {"{limit}", "{offset}"}
        _check_pages(words, paged, page_size)
        text = _filled(query, {"{graph}": f"<{graph}>", "<{graph}>": f"<{graph}>"})
        return cls(form, text, page_size, appended=not paged)

    def at(self, offset: int) -> str:
        """The query for the page that begins with row `offset`; the whole one where it is not asked in pages."""
        if self.page_size is None:
            return self.text
        if self.appended:
            return f"{self.text}\nLIMIT {self.page_size} OFFSET {offset}"
        return _filled(self.text, {"{limit}": str(self.page_size), "{offset}": str(offset)})


def _form(words: Sequence[tuple[str, int]]) -> str:
    form = next((word for word, _ in words if word not in ("BASE", "PREFIX", "VERSION")), "")
    if form not in ("SELECT", "CONSTRUCT", "DESCRIBE"):
        raise UsageError(
            f"the query is no SELECT, CONSTRUCT or DESCRIBE, but begins with {form or 'nothing'}",
            hint="write a CONSTRUCT whose template is a record, or a SELECT with ?id",
        )
    return form


def _check_graph(graph: str | None, placeholders: Set[str]) -> None:
    if graph is None:
        if "{graph}" in placeholders:
            raise UsageError("the query has {graph}, and no graph is configured", hint="set graph to the graph's IRI")
        return
    if "{graph}" not in placeholders:
        hint = "write FROM <{graph}>, or no graph"
        raise UsageError("a graph is configured, and the query has no {graph}", hint=hint)
    if not (_IRI.fullmatch(graph) and graph.isprintable()):
        raise UsageError(
            f"graph is {quoted(graph)}, which is no IRI", hint="write it whole and escaped: https://HOST/graph"
        )


def _check_pages(words: Sequence[tuple[str, int]], placeholders: Set[str], page_size: int | None) -> None:
    if page_size is None:
        if placeholders:
            raise UsageError("the query has {limit} or {offset}, and no page_size is set", hint="set page_size")
        return
    if page_size < 1:
        raise UsageError(f"page_size is {page_size}; it must be above 0", hint="correct page_size")
    if len(placeholders) == 1:
        raise UsageError("the query has one of {limit} and {offset} only", hint="write LIMIT {limit} OFFSET {offset}")
    outer = {word for word, depth in words if depth == 0}
    if not placeholders and outer & {"LIMIT", "OFFSET", "VALUES"}:
        raise UsageError(
            "the query has a LIMIT, an OFFSET or a VALUES of its own at its end, so no page can be put behind it",
            hint="write LIMIT {limit} OFFSET {offset} where the page belongs, or leave page_size out",
        )
    ordered = {word for word, depth in words if depth == 0 or placeholders}
    if not {"ORDER", "BY"} <= ordered:
        raise UsageError(
            "the query is asked in pages without an order, so rows may be lost between two of them",
            hint=f"add ORDER BY with what is unique, the id for example; for a CONSTRUCT best inside: {INNER}",
        )


def _words(tokens: Sequence[re.Match[str]]) -> list[tuple[str, int]]:
    """The query's keywords in capitals, each with the number of braces it stands in."""
    words, depth = [], 0
    for token in tokens:
        if token.lastgroup == "brace":
            depth += 1 if token[0] == "{" else -1
        elif token.lastgroup == "words":
            words += [(word.upper(), depth) for word in _WORD.findall(token[0])]
    return words


def _filled(query: str, values: Mapping[str, str]) -> str:
    """The query with its placeholders replaced; what looks like one in a string or a comment stays."""
    return _TOKEN.sub(
        lambda token: values.get(token[0], token[0]) if token.lastgroup == "placeholder" else token[0], query
    )
