"""Pages and anchors of passages through each door of a server: the same place, in each program's own keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from layout_samples import DOCUMENTS, index_of
from mcp_clients import called, text_of
from pages import read_html
from servers import sent, state_of

from retrieve_cli.server.http.app import server_app
from retrieve_cli.server.page.address import record_url

PDF = "thermometer minute tepid"
HTML = "administrator installer archive"
MARKDOWN = "gramophone wound"

Send = Callable[..., httpx.Response]


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RETRIEVE_ENCODER__KIND", "hashed")
        patch.setenv("RETRIEVE_CHUNKING__SIZE", "40")
        index_of(DOCUMENTS, folder / "files", folder / "artifacts")
    return folder / "artifacts"


@pytest.fixture(scope="module")
def send(artifacts: Path) -> Iterator[Send]:
    """A request to a server in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RETRIEVE_ENCODER__KIND", "hashed")
        state = state_of(artifacts)
    app = server_app(state)

    def send(method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        (answer,) = sent(app, (method, path, {"json": body, "headers": headers}))
        assert answer.status_code == 200, answer.text
        return answer

    yield send
    state.close()


def first(send: Send, path: str, query: str, *keys: str | int, **more: Any) -> Any:
    """Return a part of the answer to a query."""
    value = send("POST", path, {"query": query, **more}).json()
    for key in keys:
        value = value[key]
    return value


def test_passages_have_pages_in_place_of_lines_and_cite_them(send: Send) -> None:
    passage = first(send, "/retrieve", PDF, "passages", 0)
    assert passage["citation"] == "docs/paper.pdf pp. ii–3 [2–3] › Cooling of kettles > Method"
    source = passage["source"]
    assert source["lines"] is None
    place = {key: source[key] for key in source if key.startswith("page") or key == "anchor"}
    assert place == {"page": 2, "page_end": 3, "page_label": "ii", "page_label_end": "3", "anchor": None}
    assert first(send, "/retrieve", PDF, "context").startswith(f"[1] {passage['citation']}\n")
    assert first(send, "/retrieve", HTML, "passages", 0, "source", "anchor") == "install"
    assert first(send, "/retrieve", MARKDOWN, "passages", 0, "source", "lines") == [1, 3]


def test_a_rag_service_gets_the_page_number_and_the_kind_of_content(send: Send) -> None:
    found = first(send, "/api/v1/rag/retrieve", "copper porcelain", "results", 0, "metadata")
    names = {"documentId": "docs/paper.pdf", "fileName": "paper.pdf"}
    assert found == {**names, "chunkIndex": 2, "pageNumber": 4, "contentType": "table"}


def test_mcp_names_pages_in_its_content_and_its_structure(artifacts: Path) -> None:
    answer = called(artifacts, "search", {"query": PDF})
    head = text_of(answer).splitlines()[1]
    assert head.startswith("1. Cooling of kettles [docs/paper.pdf#1] ")
    assert head.endswith(" pp. ii–3 [2–3] Cooling of kettles > Method")
    assert answer.structured_content["results"][0]["page"] == 2
    linked = text_of(called(artifacts, "search", {"query": HTML})).splitlines()[1]
    assert linked.endswith(" https://example.org/guide/#install")


def test_a_document_that_mcp_reads_has_the_pages_of_what_is_read(artifacts: Path) -> None:
    def fetched(**given: Any) -> Any:
        return called(artifacts, "fetch", given).structured_content

    whole = fetched(id="docs/paper.pdf")
    assert (whole["page"], whole["page_end"], whole["page_label"], whole["page_label_end"]) == (1, 4, "i", "4")
    part = fetched(id="docs/paper.pdf#2", max_tokens=120)
    assert (part["start"] > 0, part["page"], part["page_end"]) == (True, 4, 4)
    assert "page" not in fetched(id="docs/notes.md")


def test_the_search_page_shows_pages_and_links_to_the_anchor(send: Send) -> None:
    shown = read_html(send("GET", "/?q=thermometer", Accept="text/html").content)
    assert "docs/paper.pdf, pp. ii–3 [2–3]" in [node.text for node in shown.all("span", class_="place")]
    linking = send("GET", "/?q=administrator", Accept="text/html").text
    assert 'href="https://example.org/guide/#install"' in linking
    record = send("GET", record_url("docs/paper.pdf"), Accept="text/html").text
    assert "p. i [1]" in record
