"""Requests of a tenant over HTTP, by door: a new route is one function more, in the list that fits it.

    FOR_REQUESTS   from the JSON of a search to a request of each door that searches
    FOR_IDS        from the id of a record to a request of each door that takes one
    PLAIN          requests that need neither

A function whose route is not in the application is skipped; a route that no function asks is in `UNASKED`, with a
reason.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from hypothesis import strategies as st
from tenant_samples import FOREIGN, TEXT

Body = dict[str, Any]


class Ask(NamedTuple):
    """A request, and the template of the route that answers it."""

    method: str
    route: str
    path: str
    body: Any = None
    headers: Mapping[str, str] = {}

    @property
    def content(self) -> bytes | None:
        """The body as JSON; None if there is none."""
        return None if self.body is None else json.dumps(self.body).encode()

    def __str__(self) -> str:
        return f"{self.method} {self.path} {'' if self.body is None else json.dumps(self.body)}"


def post(route: str, body: Any) -> Ask:
    return Ask("POST", route, route, body)


def get(route: str, path: str | None = None, /, **parameters: Any) -> Ask:
    parts = urlencode(parameters, doseq=True)
    return Ask("GET", route, (path or route) + (f"?{parts}" if parts else ""))


# ------------------------------------------------------------------------------------------------ doors


def search(body: Body) -> Ask:
    return post("/search", body)


def link(body: Body) -> Ask:
    plain = {key: value for key, value in body.items() if not isinstance(value, dict | bool)}
    flags = {key: str(value).lower() for key, value in body.items() if isinstance(value, bool)}
    return get("/search", **plain, **flags)


def batch(body: Body) -> Ask:
    return post("/search/batch", {"requests": [body, {"query": TEXT}, {"query": f"{FOREIGN}word1"}]})


def passages(body: Body) -> Ask:
    taken = {key: body[key] for key in ("query", "filters", "max_tokens", "tenant") if key in body}
    return post("/retrieve", {**taken, "top_k": body.get("limit", 5)})


def rag(body: Body) -> Ask:
    taken = {"query": body["query"], "similarityTopK": body.get("limit", 5), "engineName": "naive"}
    return post("/api/v1/rag/retrieve", taken if "doc_ids" not in body else {**taken, "docIds": body["doc_ids"]})


def page(body: Body) -> Ask:
    filters = body.get("filters", [])
    return get("/", q=body["query"], f=filters if isinstance(filters, list) else [])


def mcp_search(body: Body) -> Ask:
    return mcp("tools/call", name="search", arguments=body)


def document(name: str) -> Ask:
    return get("/documents/{id:path}", f"/documents/{quote(name, safe='')}")


def removed_document(name: str) -> Ask:
    return document(name)._replace(method="DELETE")


def original(name: str) -> Ask:
    return get("/files/{id:path}", f"/files/{quote(name, safe='')}")


def picture(name: str) -> Ask:
    return get("/pictures/{id:path}", f"/pictures/{quote(name, safe='')}", page=1)


def record_page(name: str) -> Ask:
    return get("/r/{record_id:path}", f"/r/{quote(name, safe='')}")


def mcp_fetch(name: str) -> Ask:
    return mcp("tools/call", name="fetch", arguments={"id": name})


def mcp(method: str, **parameters: Any) -> Ask:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
    accepted = {"Accept": "application/json, text/event-stream"}
    return Ask("POST", "/mcp", "/mcp", message, {**accepted, "MCP-Protocol-Version": "2025-06-18"})


FOR_REQUESTS: Sequence[Callable[[Body], Ask]] = (*(search, link, batch, passages, rag, page, mcp_search),)
FOR_IDS: Sequence[Callable[[str], Ask]] = (document, removed_document, original, picture, record_page, mcp_fetch)
OF_FILES = ("/files/{id:path}", "/pictures/{id:path}")
"""Routes that answer for documents alone; tests/server/test_uploads.py and tests/sources/formats ask them for these."""
PLAIN: Sequence[Ask] = (
    get("/documents"),
    get("/documents", limit=2),
    get("/documents", filters="license=MIT", limit=1),
    get("/documents", filters="zqfield=1"),
    get("/documents", filters="zqfild=1"),
    get("/documents", cursor="zq"),
    get("/index"),
    get("/tasks"),
    get("/tasks/{id}", "/tasks/zq"),
    get("/"),
    mcp("tools/list"),
    mcp("prompts/list"),
    mcp("resources/list"),
    mcp("tools/call", name="list_fields", arguments={}),
)
UNASKED: Mapping[tuple[str, str], str] = {
    ("GET", "/health"): "touches nothing",
    ("GET", "/readyz"): "for the operator: states of parts of the server",
    ("GET", "/metrics"): "scope metrics: figures of the whole server",
    ("POST", "/web"): "asks others and sees nothing of the index",
    ("POST", "/documents"): "writes: what it answers is about the documents that were sent",
    ("POST", "/index"): "scope index:admin",
    ("GET", "/openapi.json"): "the same for everybody",
    ("GET", "/docs"): "the same for everybody",
    ("GET", "/static/{name}"): "the same for everybody",
    ("GET", "/signin"): "the same for everybody",
    ("POST", "/signin"): "about a credential",
    ("POST", "/signout"): "about a credential",
    ("GET", "/info"): "about models",
    ("GET", "/v1/models"): "about models",
    ("POST", "/embed_sparse"): "about models",
    ("POST", "/embed"): "about models",
    ("POST", "/v1/embeddings"): "about models",
    ("POST", "/v1/rerank"): "about models",
    ("POST", "/rerank"): "about models",
}
"""Routes that no function asks, and why."""

# --------------------------------------------------------------------------------------------- requests

IDS = ("a0", "a4", "zq0", "zq9", "a0#0", "zq0#0", "zq9#0", "Reader", "zqTool 1", "../zq0", "a0/../zq0", "", "a" * 300)
"""Ids of the tenant's records, of foreign ones, of none, and texts that could mislead."""
FIXED: Sequence[Body] = (
    {"query": TEXT},
    {"query": TEXT, "facets": ["license", "topics", "group", "tenant", "zqfield"]},
    {"query": TEXT, "facets": ["zqfild"]},
    {"query": TEXT, "filters": ["zqfield=1"]},
    {"query": TEXT, "filters": ["zqfild=1"]},
    {"query": TEXT, "filters": {"zqfield": 1}},
    {"query": TEXT, "filters": ["!topics=zqsecret"]},
    {"query": TEXT, "filters": ["tenant=beta"]},
    {"query": TEXT, "doc_ids": ["zq1"]},
    {"query": TEXT, "doc_ids": ["zq9"]},
    {"query": TEXT, "explain": True, "route": True},
    {"query": TEXT, "offset": 3, "limit": 2, "facets": ["license"]},
    {"query": TEXT, "chunks": True, "context": 3},
    {"query": TEXT, "tenant": "beta"},
    {"query": TEXT, "tenant": "nobody"},
    {"query": TEXT, "boosts": ["zqfield=1:2"]},
    {"query": f"{TEXT} [EXCLUDE:zq1|Reader]"},
    {"query": f"{TEXT} [INCLUDE:zq1]"},
    {"query": f"{TEXT} [FILTER:zqfield=1]"},
)
"""Searches that ask for what others have."""


@st.composite
def bodies(draw: st.DrawFn) -> Body:
    """Searches of any kind."""
    chosen: dict[str, st.SearchStrategy[Any]] = {
        "limit": st.integers(1, 20),
        "offset": st.integers(0, 4),
        "filters": st.lists(
            st.sampled_from(["license=MIT", "zqfield=1", "shade=dark", "topics=zq*", "dose>=3"]), max_size=2
        ),
        "doc_ids": st.lists(st.sampled_from(["a0", "a1", "zq0", "zq9"]), min_size=1, max_size=3),
        "also": st.lists(st.sampled_from(["store tables", f"{FOREIGN}word0"]), max_size=2),
        "facets": st.lists(st.sampled_from(["license", "topics", "group", "tenant", "zqfield", "shade"]), max_size=3),
        "chunks": st.booleans(),
        "context": st.integers(0, 2),
        "max_tokens": st.integers(0, 60),
        "explain": st.booleans(),
        "expand": st.booleans(),
        "route": st.booleans(),
        "dependencies": st.booleans(),
        "min_score": st.sampled_from([0.2, 0.6, 0.9]),
    }
    keys = draw(st.lists(st.sampled_from(sorted(chosen)), max_size=5, unique=True))
    text = draw(
        st.sampled_from([TEXT, "store tables", f"{FOREIGN}word1 tables", f"{TEXT} [EXCLUDE:zq1]", "paint walls"])
    )
    return {"query": text, **{key: draw(chosen[key]) for key in keys}}


def of_request(body: Body) -> Iterator[Ask]:
    """Yield a request of every door for a search."""
    for door in FOR_REQUESTS:
        yield door(body)


def of_id(name: str) -> Iterator[Ask]:
    """Yield a request of every door that takes an id."""
    for door in FOR_IDS:
        yield door(name)
