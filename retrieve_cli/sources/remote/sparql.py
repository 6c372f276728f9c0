"""A catalog behind a SPARQL endpoint: the graph or rows of a query, page by page, as a file of JSON Lines.

    query text -> Template -> pages (triples or rows) -> linked -> publish

SPARQL 1.1 Protocol (https://www.w3.org/TR/sparql11-protocol/), query operation by POST, or by GET if POST is rejected.

The text of a SPARQL query: its form, its graph, and its pages.

`{graph}`, `{limit}` and `{offset}` are placeholders; the same text in a string or a comment is left alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import chain, count
from pathlib import Path
from shlex import quote
from types import ModuleType
from urllib.parse import urlencode

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.progress import BYTES, Task, task
from retrieve_cli.errors import SourceFailed, Unavailable, UsageError, printable, quoted, shortened
from retrieve_cli.frozen import Frozen
from retrieve_cli.http.addresses import check_url, shown
from retrieve_cli.http.secrets import Credentials
from retrieve_cli.http.transport import INSTALL, Reply
from retrieve_cli.sources.catalogs.linked import (
    Solution,
    Term,
    Triple,
    records_of_solutions,
    records_of_triples,
    triples_of_solutions,
)
from retrieve_cli.sources.remote.transfer import ADDRESS, USUAL, Transfer, TransferLimits, publish
from retrieve_cli.storage.manifest import canonical
from retrieve_cli.untrusted.foreign_json import foreign_json

_KINDS = {"uri": "iri", "bnode": "blank", "literal": "literal", "typed-literal": "literal"}
"""Types of terms in SPARQL 1.1 Query Results JSON; older servers write `typed-literal`."""


class UnreadableReply(Exception):
    """A body that is not in the requested format, with the reason."""


class SparqlPage(Frozen):
    """One answer: triples, or variables and solutions."""

    bytes: int
    triples: Sequence[Triple] = ()
    variables: Sequence[str] = ()
    solutions: Sequence[Solution] = ()

    def marks(self) -> list[Hashable]:
        """Return each triple or row without the labels of its blank nodes, which may differ between answers."""
        rows = [frozenset((name, _unlabelled(term)) for name, term in row.items()) for row in self.solutions]
        return [*rows, *((_unlabelled(one), predicate, _unlabelled(other)) for one, predicate, other in self.triples)]


def _unlabelled(term: Term) -> Term:
    return Term("blank", "") if term.kind == "blank" else term


def rows_in(body: bytes, scope: str) -> SparqlPage:
    """Return the rows of SPARQL 1.1 Query Results JSON. `scope` separates blank nodes of different answers.

    Raises:
        UnreadableReply: the body is something else.
    """

    def term(cell: Mapping[str, str]) -> Term:
        kind, value = _KINDS[cell["type"]], str(cell["value"])
        if kind == "literal":
            return Term("literal", value, str(cell.get("datatype") or ""), str(cell.get("xml:lang") or ""))
        return Term("blank", scope + value) if kind == "blank" else Term("iri", value)

    try:
        answer = foreign_json(body)
        variables = [str(name) for name in answer["head"]["vars"]]
        bindings = answer["results"]["bindings"]
        rows = [{name: term(cell) for name, cell in row.items()} for row in bindings]
    except ValueError as error:
        raise UnreadableReply("which is not JSON") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise UnreadableReply("which is not a table of IRIs, blank nodes and literals") from error
    if not variables:
        raise UnreadableReply("which is a table without columns")
    return SparqlPage(len(body), variables=variables, solutions=rows)


def triples_in(body: bytes, media_type: str, scope: str, base: str) -> SparqlPage:
    """Return the triples of a graph in any RDF format. `scope` separates blank nodes of different answers.

    Raises:
        UnreadableReply: the body is something else.
        Unavailable: pyoxigraph is not installed.
    """
    oxigraph = rdf_reader()
    rdf_format = oxigraph.RdfFormat.from_media_type(media_type) if media_type else None
    if rdf_format is None:
        raise UnreadableReply("which is not RDF")

    def term(node: object) -> Term:
        if isinstance(node, oxigraph.NamedNode):
            return Term("iri", node.value)
        if isinstance(node, oxigraph.BlankNode):
            return Term("blank", scope + node.value)
        if isinstance(node, oxigraph.Literal):
            return Term("literal", node.value, "" if node.language else node.datatype.value, node.language or "")
        raise UnreadableReply("with triples about triples, which a catalog cannot represent")

    try:
        # Lenient: an IRI with a space in it, as in published data, must not make the whole catalog unreadable.
        quads = oxigraph.parse(body, rdf_format, base_iri=base, lenient=True)
        triples = [(term(quad.subject), quad.predicate.value, term(quad.object)) for quad in quads]
    except (SyntaxError, ValueError) as error:
        raise UnreadableReply(f"which cannot be parsed ({printable(str(error))})") from error
    return SparqlPage(len(body), triples=triples)


def rdf_reader() -> ModuleType:
    """Import the RDF reader. Raises: Unavailable if pyoxigraph is not installed."""
    try:
        import pyoxigraph
    except ImportError as error:
        raise Unavailable("reading RDF needs the package pyoxigraph, which is not installed", hint=INSTALL) from error
    return pyoxigraph


_ACCEPT_GRAPH = "application/n-triples, text/turtle;q=0.9, application/ld+json;q=0.8, application/rdf+xml;q=0.7"
_ACCEPT_ROWS = "application/sparql-results+json, application/json;q=0.9"
_NO_POST = (405, 415)


class SparqlFetcher:
    """Fetcher that sends a query to an endpoint and replaces the file by the answer."""

    def __init__(
        self,
        endpoint: str,
        query: str,
        *,
        graph: str | None = None,
        page_size: int | None = None,
        limits: TransferLimits = USUAL,
        credentials: Credentials = Credentials(),
    ) -> None:
        """Raises: UsageError if the endpoint, the query, `graph`, `page_size` or the credentials are invalid."""
        check_url(endpoint, ADDRESS)
        self._endpoint = endpoint
        self._template = Template.of(query, graph=graph, page_size=page_size)
        self._limits, self._credentials = limits, credentials

    def fetch(self, target: Path) -> None:
        """Replace `target` if the answer differs from it. On failure it stays unchanged.

        Raises:
            SourceFailed: the endpoint does not answer, or its answer contains no records.
            UsageError: a credential's variable is not set.
            Unavailable: urllib3 or pyoxigraph is not installed.
        """
        if self._template.form != "SELECT":
            rdf_reader()  # before requesting data that could not be read
        probe = f"check the endpoint: curl -sS --data-urlencode 'query=ASK {{}}' {quote(shown(self._endpoint))}"
        with (
            Transfer(self._endpoint, credentials=self._credentials, limits=self._limits, probe=probe) as transfer,
            task(f"asking {shortened(transfer.origin, 50)}", BYTES) as progress,
        ):
            records = self._records(list(self._pages(transfer, progress)))
        if not records:
            hint = "run the query at the endpoint by hand, and check that its graph exists there"
            raise SourceFailed(f"{transfer.origin} answered without a single record", hint=hint)
        publish(target, (canonical(record) + b"\n" for record in records))

    def _records(self, pages: Sequence[SparqlPage]) -> list[dict[str, Json]]:
        solutions = list(chain.from_iterable(page.solutions for page in pages))
        if not solutions:
            return records_of_triples(chain.from_iterable(page.triples for page in pages))
        variables = pages[0].variables
        triples = triples_of_solutions(variables, solutions)
        return records_of_solutions(variables, solutions) if triples is None else records_of_triples(triples)

    def _pages(self, transfer: Transfer, progress: Task) -> Iterator[SparqlPage]:
        """Yield all pages, their bytes counted; without a page size, the only one.

        A page of triples does not reveal its number of rows, so the end is an empty page, or a repeated page that
        never brought anything new (some endpoints add such triples to every answer).

        Raises:
            SourceFailed: a page that brought something new is repeated.
        """
        size, rows = self._template.page_size, self._template.form == "SELECT"
        seen: set[Hashable] = set()
        earlier: dict[Hashable, bool] = {}
        received = 0
        for offset in count(0, size or 1):
            page = self._page(transfer, offset, received)
            progress.advance(page.bytes)
            if size is None:
                yield page
                return
            marks = page.marks()
            whole = frozenset(Counter(marks).items())
            if earlier.get(whole):
                raise SourceFailed(
                    f"{transfer.origin} returned a page again at OFFSET {offset}: it ignores OFFSET, or rows repeat",
                    hint=f"remove page_size, or page over distinct records: {INNER}",
                )
            if whole in earlier:
                return
            yield page
            if not marks or (rows and len(marks) < size):
                return
            earlier[whole] = rows or not seen.issuperset(marks)
            seen.update(marks)
            received += page.bytes

    def _page(self, transfer: Transfer, offset: int, received: int) -> SparqlPage:
        query = self._template.at(offset)
        receive = partial(self._receive, transfer, offset, received)
        headers = {"Accept": _ACCEPT_ROWS if self._template.form == "SELECT" else _ACCEPT_GRAPH}
        page = transfer.ask(
            lambda reply: None if reply.status in _NO_POST else receive(reply),
            form={"query": query}, headers=headers, statuses=(200, *_NO_POST),
        )  # fmt: skip
        url = f"{transfer.url}{'&' if '?' in transfer.url else '?'}{urlencode({'query': query})}"
        return page or transfer.ask(receive, url=url, headers=headers)

    def _receive(self, transfer: Transfer, offset: int, received: int, reply: Reply) -> SparqlPage:
        body = b"".join(transfer.limited(reply.decoded(), before=received))
        media_type = reply.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        scope, is_table = f"{offset}:", self._template.form == "SELECT"
        try:
            page = rows_in(body, scope) if is_table else triples_in(body, media_type, scope, transfer.url)
        except UnreadableReply as error:
            answer = f"{transfer.origin} answered with {printable(media_type) or 'no Content-Type'}"
            raise SourceFailed(f"{answer}, {error}: {transfer.excerpt(body)}", hint=transfer.probe) from error
        self._check_complete(transfer, reply, len(page.triples) + len(page.solutions))
        return page

    def _check_complete(self, transfer: Transfer, reply: Reply, items: int) -> None:
        """Raise SourceFailed if the endpoint's headers report a partial answer (headers of Virtuoso)."""
        cap = reply.headers.get("X-SPARQL-MaxRows", "")
        size = self._template.page_size
        capped = cap.isdecimal() and items >= int(cap) and (size is None or items < size)
        if capped or "X-SQL-State" in reply.headers:
            limit = f"at most {cap} rows at a time" if capped else "the rows that it found within its time limit"
            raise SourceFailed(
                f"{transfer.origin} answered only in part: it returns {limit}",
                hint=f"read it in pages: set page_size (for example to {cap or 1000}) and order the query",
            )


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
        form = next((word for word, _ in words if word not in ("BASE", "PREFIX", "VERSION")), "")
        if form not in ("SELECT", "CONSTRUCT", "DESCRIBE"):
            raise UsageError(
                f"the query must be a SELECT, CONSTRUCT or DESCRIBE; it begins with {form or 'nothing'}",
                hint="write a CONSTRUCT whose template is a record, or a SELECT with ?id",
            )
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
