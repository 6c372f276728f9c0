"""The text of a SPARQL query: its form, its graph, and its pages.

`{graph}`, `{limit}` and `{offset}` are placeholders; the same text in a string or a comment is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set

from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.frozen import Frozen

_TOKEN = re.compile(
    r"""
    (?P<skipped> \#[^\n\r]*                                  # a comment
      | <[^<>"{}|^`\\\x00-\x20]*>                            # an IRI
      | \"{3}(?:\"{0,2}(?:[^"\\]|\\.))*+\"{0,3} | '{3}(?:'{0,2}(?:[^'\\]|\\.))*+'{0,3}
      | "(?:[^"\\\n\r]|\\.)*+"? | '(?:[^'\\\n\r]|\\.)*+'?    # strings, to the end if they are not closed
      | [\w.-]*+:(?:[\w.%-]|\\.)*+                          # a prefixed name, or a prefix
      | [?$]\w+ | @[A-Za-z-]+ )                              # a variable, a language
  | (?P<placeholder> <\{graph\}> | \{(?:graph|limit|offset)\} )
  | (?P<words> [\w.-]++ )                                   # keywords and numbers
  | (?P<brace> [{}] )
  | .
    """,
    re.VERBOSE | re.DOTALL,
)
"""SPARQL 1.1 Query, section 19.8, as far as needed to tell keywords from text that looks like keywords.

Each alternative consumes all that it matched, so no text is scanned twice: the time is linear in the length."""
_WORD = re.compile(r"[A-Za-z_]\w*")
_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"'{}|^`\\]+")
INNER = "{ SELECT DISTINCT ?s WHERE { … } ORDER BY ?s LIMIT {limit} OFFSET {offset} }"
"""Recommended form of a paged query: pages of records, not of triples."""


class Template(Frozen):
    """A query whose graph is filled in and whose page is still open."""

    form: str
    """SELECT, CONSTRUCT or DESCRIBE."""
    text: str
    page_size: int | None
    appended: bool
    """True if the page is appended to the query, because it has no placeholders."""

    @classmethod
    def of(cls, query: str, *, graph: str | None, page_size: int | None) -> Template:
        """Parse a query. Raises: UsageError if the query, the graph and the page size do not fit together."""
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
        """Return the query for the page that begins with row `offset`; the whole query if it has no pages."""
        if self.page_size is None:
            return self.text
        if self.appended:
            return f"{self.text}\nLIMIT {self.page_size} OFFSET {offset}"
        return _filled(self.text, {"{limit}": str(self.page_size), "{offset}": str(offset)})


def _form(words: Sequence[tuple[str, int]]) -> str:
    form = next((word for word, _ in words if word not in ("BASE", "PREFIX", "VERSION")), "")
    if form not in ("SELECT", "CONSTRUCT", "DESCRIBE"):
        raise UsageError(
            f"the query must be a SELECT, CONSTRUCT or DESCRIBE; it begins with {form or 'nothing'}",
            hint="write a CONSTRUCT whose template is a record, or a SELECT with ?id",
        )
    return form


def _check_graph(graph: str | None, placeholders: Set[str]) -> None:
    if graph is None:
        if "{graph}" in placeholders:
            raise UsageError("the query has {graph}, but no graph is configured", hint="set graph to the graph's IRI")
        return
    if "{graph}" not in placeholders:
        hint = "add FROM <{graph}> to the query, or remove the key graph"
        raise UsageError("a graph is configured, but the query has no {graph}", hint=hint)
    if not (_IRI.fullmatch(graph) and graph.isprintable()):
        raise UsageError(
            f"graph is {quoted(graph)}, which is not an IRI", hint="write the full, escaped IRI: https://HOST/graph"
        )


def _check_pages(words: Sequence[tuple[str, int]], placeholders: Set[str], page_size: int | None) -> None:
    if page_size is None:
        if placeholders:
            raise UsageError("the query has {limit} or {offset}, but page_size is not set", hint="set page_size")
        return
    if page_size < 1:
        raise UsageError(f"page_size is {page_size}; it must be above 0", hint="fix page_size")
    if len(placeholders) == 1:
        raise UsageError("the query has only one of {limit} and {offset}", hint="write LIMIT {limit} OFFSET {offset}")
    outer = {word for word, depth in words if depth == 0}
    if not placeholders and outer & {"LIMIT", "OFFSET", "VALUES"}:
        raise UsageError(
            "the query ends with its own LIMIT, OFFSET or VALUES, so a page cannot be appended",
            hint="write LIMIT {limit} OFFSET {offset} where the page belongs, or remove page_size",
        )
    ordered = {word for word, depth in words if depth == 0 or placeholders}
    if not {"ORDER", "BY"} <= ordered:
        raise UsageError(
            "the query is paged but has no order, so rows may be lost between pages",
            hint=f"add ORDER BY with a unique value, for example the id; for a CONSTRUCT best inside: {INNER}",
        )


def _words(tokens: Sequence[re.Match[str]]) -> list[tuple[str, int]]:
    """Return the query's keywords in capitals, each with its depth of braces."""
    words, depth = [], 0
    for token in tokens:
        if token.lastgroup == "brace":
            depth += 1 if token[0] == "{" else -1
        elif token.lastgroup == "words":
            words += [(word.upper(), depth) for word in _WORD.findall(token[0])]
    return words


def _filled(query: str, values: Mapping[str, str]) -> str:
    """Replace the placeholders of the query; the same text in a string or a comment is left alone."""
    return _TOKEN.sub(
        lambda token: values.get(token[0], token[0]) if token.lastgroup == "placeholder" else token[0], query
    )
