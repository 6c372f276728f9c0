"""Promises of web and literature search: a query, and what a provider answers or why it does not.

    WebQuery -> Provider.search -> Page of Items, or ProviderFailed -> one WebRow for each result

Texts, authors and addresses come from servers that are not trusted: providers bound their sizes
(`websearch/replies.py`, `websearch/items.py`), and outputs mark them as data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

from retrieve_cli.frozen import Frozen

WebKind = Literal["web", "literature"]
"""Kind of a provider: pages of the web, or publications."""
ItemType = Literal["article", "preprint", "dataset", "web"]
IdKind = Literal["doi", "pmid", "pmcid", "arxiv", "s2", "url"]
"""Kind of an identifier, in the order in which the id of a result is chosen."""
FailureKind = Literal["no_key", "rate_limited", "rejected", "timeout", "unreachable", "malformed"]
"""`malformed`: the answer is not what the provider documents, such as an error page with status
200; `rejected`: the provider rejects the request, or its answer breaks a limit."""


class WebQuery(Frozen):
    """A question for providers."""

    text: str
    k: int
    """Number of results wanted of each provider, from 1 to 100."""
    since: str = ""
    """Earliest date, `YYYY`, `YYYY-MM` or `YYYY-MM-DD`; empty: any."""
    categories: tuple[str, ...] = ()
    """Categories of arXiv, such as `q-bio` or `cs.AI`, of which a result must have one; other
    providers ignore them."""


class KeyPlace(Frozen):
    """The place of a credential in a request. It is read from the environment when the request is
    sent, and is part of no message. A variable that is not set leaves its place out."""

    variable: str
    where: Literal["header", "parameter"]
    name: str
    """Name of the header or parameter."""
    form: str = "{}"
    """Its value; the credential replaces `{}`."""


class Call(Frozen):
    """A request of a provider: GET, or POST if there is a body."""

    url: str
    """Address without a query: `https://…`."""
    parameters: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    keys: tuple[KeyPlace, ...] = ()


class Response(Frozen):
    """A complete answer of a server."""

    status: int
    body: bytes
    """Its bytes without content coding, at most 10 MB."""
    at: str
    """Time at which it arrived, ISO 8601 in UTC with seconds: `2026-11-23T04:11:48Z`."""


class Fetch(Protocol):
    """Sends the calls of one provider within its rate and the time of the request."""

    def __call__(self, call: Call, *, accept: Sequence[int] = (200,)) -> Response:
        """Return the response, whose status is one of `accept`.

        Raises:
            ProviderFailed: another status or no response; its failure has the reason.
        """


class Need(NamedTuple):
    """An environment variable that a provider uses."""

    variable: str
    required: bool
    purpose: str
    """Its purpose, for listings: `key`, `a higher rate`, `contact address`."""


class Id(NamedTuple):
    """A normalised identifier: see `websearch/ids.py`."""

    kind: IdKind
    value: str

    def __str__(self) -> str:
        """Return the form that answers use: `doi:10.1000/xyz`; an address is printed unchanged."""
        return self.value if self.kind == "url" else f"{self.kind}:{self.value}"


class Item(Frozen):
    """One result of a provider. Empty or None: not given."""

    type: ItemType
    title: str
    ids: tuple[Id, ...]
    authors: tuple[str, ...] = ()
    date: str = ""
    """Date of publication with the precision that is known: `2024`, `2024-03`, `2024-03-05`."""
    venue: str = ""
    abstract: str = ""
    snippet: str = ""
    """Excerpt that a search engine shows; for providers without abstracts."""
    url: str = ""
    pdf_url: str = ""
    open_access: bool | None = None
    license: str = ""
    """Licence as an SPDX identifier if it is known as one, else as the provider names it."""
    citations: int | None = None
    retracted: bool | None = None

    @property
    def text(self) -> str:
        """Its abstract, or else its snippet."""
        return (self.abstract or self.snippet).strip()


class Page(Frozen):
    """Results of a provider for a question, best first."""

    items: tuple[Item, ...]
    query: str
    """The query as sent, in the syntax of the provider."""
    total: int | None = None
    """Number of matches at the provider, if it reports one."""
    notices: tuple[str, ...] = ()
    """Conditions that the provider cannot apply, and results that cannot be read."""


class Source(NamedTuple):
    """Finding of a result by a provider."""

    provider: str
    rank: int
    """Rank on its page, from 1."""
    score: float
    """Its part of the score of the result."""
    query: str
    """The query as sent."""
    at: str
    """Time of the response, ISO 8601 in UTC."""


class WebRow(Frozen):
    """One result of a search: all items that have an identifier or an address in common. A field is
    taken from the item with the best rank that has it."""

    item: Item
    found_by: tuple[Source, ...]
    """Best rank first."""
    score: float

    @property
    def id(self) -> str:
        """Its best identifier as text: `doi:10.1000/xyz`, `arxiv:2401.01234`, or an address."""
        return str(self.item.ids[0])


class Provider(Protocol):
    """A source of web results or literature. A value without state: requests go through `fetch`."""

    @property
    def name(self) -> str:
        """Name in `--provider`, the configuration and answers: `pubmed`."""

    @property
    def title(self) -> str:
        """Name for people: `PubMed`."""

    @property
    def kind(self) -> WebKind: ...

    @property
    def needs(self) -> tuple[Need, ...]:
        """Variables that it uses."""

    @property
    def pause_s(self) -> float:
        """Seconds between two requests that its terms ask for."""

    @property
    def servers(self) -> tuple[str, ...]:
        """Origins to which it sends the question: `https://eutils.ncbi.nlm.nih.gov`."""

    def search(self, query: WebQuery, fetch: Fetch) -> Page:
        """Return its results.

        Raises:
            ProviderFailed: there is no answer, or it cannot be read. An empty page is an answer.
        """


class ProviderFailure(NamedTuple):
    """Reason for which a provider has no page. Never an empty page."""

    kind: FailureKind
    message: str
    retry_after: float | None = None
    """Seconds until the next request is permitted, if the provider reports them."""
    variable: str = ""
    """With `no_key`, the environment variable that is not set."""


class ProviderFailed(Exception):
    """Carries a failure out of a provider."""

    def __init__(self, kind: FailureKind, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.failure = ProviderFailure(kind, message, retry_after)
