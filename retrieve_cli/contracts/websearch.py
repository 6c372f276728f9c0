"""Promises of web and literature search: a question, what a provider answers or why it does not, and merged works.

    WebQuery -> Provider.search -> Page of Items, or a Failure -> merging -> Work, one for each publication or page

Texts, authors and addresses come from servers that are not trusted: providers bound their sizes (see
`websearch/replies.py`), and outputs mark them as data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Protocol, TypeAlias

from retrieve_cli.frozen import Frozen

if TYPE_CHECKING:
    from retrieve_cli.contracts.works import Item

WebKind = Literal["web", "literature"]
"""Kind of a provider, and of a search: pages of the web, or publications."""


class WebQuery(Frozen):
    """A question for providers."""

    text: str
    k: int
    """Number of results wanted of each provider, from 1 to 100."""
    since: str = ""
    """Earliest date, `YYYY`, `YYYY-MM` or `YYYY-MM-DD`; empty: any."""
    categories: tuple[str, ...] = ()
    """Categories of arXiv, such as `q-bio` or `cs.AI`, of which a result must have one; other providers ignore them and
    report that in the notices of their page."""
    shown: int = 0
    """Number of results that the user asks for; 0: as many as of each provider."""


class KeyPlace(Frozen):
    """The place of a credential in a request. It is read from the environment when the request is sent, and is part of
    neither the stored request nor any message. A variable that is not set leaves its place out."""

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
    """A complete answer to a call, from the server or from the store."""

    status: int
    content_type: str
    body: bytes
    """Its bytes without content coding, at most 10 MB."""
    at: str
    """Time at which the server sent it, ISO 8601 in UTC with seconds: `2026-11-23T04:11:48Z`."""
    digest: str
    """SHA-256 of the body, 64 hexadecimal digits."""


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


class Rate(NamedTuple):
    """Largest number of requests in some seconds that the terms of a server allow."""

    requests: int
    seconds: float


class Page(Frozen):
    """Results of a provider for a question, best first."""

    items: tuple[Item, ...]
    query: str
    """The query as sent, in the syntax of the provider."""
    response: Response
    """The response that ranks the items."""
    total: int | None = None
    """Number of matches at the provider, if it reports one."""
    notices: tuple[str, ...] = ()
    """Conditions that the provider cannot apply, and results that it sent but that cannot be read."""


class Provider(Protocol):
    """A source of web results or literature. A value without state: all requests go through `fetch`."""

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
    def rate(self) -> Rate:
        """Rate that its terms allow, with the credentials that are in the environment."""

    @property
    def terms(self) -> str:
        """Address of its terms of use."""

    @property
    def servers(self) -> tuple[str, ...]:
        """Origins to which it sends the question: `https://eutils.ncbi.nlm.nih.gov`."""

    def search(self, query: WebQuery, fetch: Fetch) -> Page:
        """Return its results.

        Raises:
            ProviderFailed: there is no answer, or it cannot be read. An empty page is an answer: nothing matches.
        """


class Enricher(Protocol):
    """A source of further facts about works that were found: relations, citations, licences, retractions."""

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def rate(self) -> Rate: ...

    @property
    def terms(self) -> str: ...

    @property
    def servers(self) -> tuple[str, ...]: ...

    def enrich(self, items: Sequence[Item], fetch: Fetch) -> Page | None:
        """Return its descriptions of the works of these items, in any order; None if there is nothing to look up.

        Raises:
            ProviderFailed: no answer arrived, or it cannot be read.
        """


# ----------------------------------------------------------------------------------------------- failures


class NoKey(Frozen):
    """The credential that a provider needs is not in the environment."""

    kind: ClassVar[str] = "no_key"
    variable: str

    def __str__(self) -> str:
        return f"the environment variable {self.variable} is not set"


class RateLimited(Frozen):
    """The provider permits no further request now, or our own record of its rate does not."""

    kind: ClassVar[str] = "rate_limited"
    retry_after: float | None
    """Seconds until the next request is allowed, if the provider reports them."""

    def __str__(self) -> str:
        if self.retry_after is None:
            return "it permits no further requests now"
        return f"it permits no further requests for {self.retry_after:.3g} s"


class Rejected(Frozen):
    """The provider rejects the request, or its answer is not permitted: an address, a size."""

    kind: ClassVar[str] = "rejected"
    reason: str
    status: int = 0
    """Status of the answer; 0 if the request was not answered."""

    def __str__(self) -> str:
        return self.reason


class Timeout(Frozen):
    """The provider does not answer in time."""

    kind: ClassVar[str] = "timeout"
    reason: str

    def __str__(self) -> str:
        return self.reason


class Unreachable(Frozen):
    """There is no connection to the provider, or it ended early."""

    kind: ClassVar[str] = "unreachable"
    reason: str

    def __str__(self) -> str:
        return self.reason


class Malformed(Frozen):
    """The answer is not what the provider documents: an error page with status 200, truncated JSON."""

    kind: ClassVar[str] = "malformed"
    reason: str

    def __str__(self) -> str:
        return self.reason


class NotStored(Frozen):
    """There is no stored answer to this request, and the search is offline."""

    kind: ClassVar[str] = "not_stored"

    def __str__(self) -> str:
        return "no answer to this question is stored"


Failure: TypeAlias = (
    NoKey | RateLimited | Rejected | Timeout | Unreachable | Malformed | NotStored
)  # fmt: skip
"""Reason for which a provider has no page. Never an empty page."""


class ProviderFailed(Exception):
    """Carries a failure from a provider to `websearch/asking.py`, which returns it as a value."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure
