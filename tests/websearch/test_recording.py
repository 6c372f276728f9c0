"""Recordings of exchanges: they answer as the server did, and have no credentials."""

import json
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from websearch import taped
from websearch.answering import Answering
from websearch.echoing import unstored
from websearch.fakes.server import Fakes, faking
from websearch.taped import Taped

from retrieve_cli.contracts.websearch import Call, KeyPlace, NotStored, Page, ProviderFailed, WebQuery
from retrieve_cli.errors import UsageError
from retrieve_cli.frozen import replace
from retrieve_cli.http.limits import Clock
from retrieve_cli.websearch.providers.duckduckgo import DUCKDUCKGO
from retrieve_cli.websearch.providers.web_engines import SERPAPI, SERPER, TAVILY
from retrieve_cli.websearch.rates import Rates
from retrieve_cli.websearch.recording import record, write

each_provider = pytest.mark.parametrize(
    "provider", [TAVILY, SERPER, SERPAPI, DUCKDUCKGO], ids=lambda provider: provider.name
)
SECRET = 's3cr3t/"+key äß'
DAY = datetime(2026, 11, 23, 23, 59, tzinfo=UTC)


def tavily_with(content: str) -> bytes:
    return json.dumps({"results": [{"title": "t", "url": "https://a.example", "content": content}]}).encode()


@each_provider
def test_a_recording_answers_as_the_server_did(provider: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Taped(provider.name)
    expected = provider.search(first.query, first)
    write(record(provider, first.query, Taped(provider.name), now=lambda: DAY), tmp_path)
    monkeypatch.setattr(taped, "FOLDER", tmp_path)
    again = Taped(provider.name)
    page = provider.search(again.query, again)
    assert again.query == first.query
    assert replace(page, response=expected.response) == expected
    assert again.file["recorded"] == "2026-11-23"


@each_provider
def test_a_recording_over_sockets_has_no_credentials_and_works_as_a_fake(
    provider: Any, fakes: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for need in provider.needs:
        monkeypatch.setenv(need.variable, "s3cr3t-key/+")
    query = Taped(provider.name).query
    page = _over_sockets(provider, fakes, tmp_path / "1", lambda fetch: record(provider, query, fetch))
    text = write(page, tmp_path).read_text("utf-8")
    assert "s3cr3t" not in text
    sent = f"{[(call.parameters, call.headers) for call in fakes.calls]}"
    assert ("s3cr3t" in sent) == bool(provider.needs)
    folder = tmp_path / "fakes"
    folder.mkdir()
    (folder / "only.json").write_text(text, "utf-8")
    with faking(folder) as replayed:
        items = _over_sockets(provider, replayed, tmp_path / "2", lambda fetch: provider.search(query, fetch)).items
    expected = provider.search(query, Taped(provider.name)).items
    # Dates such as "3 days ago" depend on the day.
    assert [(item.title, item.ids, item.snippet) for item in items] == [
        (item.title, item.ids, item.snippet) for item in expected
    ]


def _over_sockets(provider: Any, fakes: Fakes, folder: Path, use: Callable[[Any], Any]) -> Any:
    with closing(unstored(fakes.endpoints, Rates(folder))) as exchange:
        return use(exchange.fetch_for(provider, clock=Clock(60, 60)))


def test_a_key_that_the_server_repeats_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", SECRET)
    recording = record(TAVILY, WebQuery("q", 5), Answering(tavily_with(f"your key is {SECRET}")))
    text = json.dumps(recording, ensure_ascii=False)
    assert "s3cr3t" not in text
    assert "your key is ***" in text


class Contact:
    """A provider that sends a contact address with a variable that its needs do not name."""

    name, needs = "contact", ()

    def search(self, query: WebQuery, fetch: Any) -> Page:
        key = KeyPlace("NCBI_EMAIL", "parameter", "email")
        response = fetch(Call("https://a.example/x", {"q": query.text}, keys=(key,)))
        return Page((), query.text, response)


def recorded(body: bytes, text: str = "q", **documentation: Any) -> dict[str, Any]:
    """Return a recording of an answer of that provider."""
    return record(Contact(), WebQuery(text, 5), Answering(body), **documentation)  # type: ignore[arg-type]


def test_contact_addresses_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCBI_EMAIL", "someone@example.org")
    recording = recorded(b"<a>hello someone@example.org</a>", "papers by someone@example.org")
    assert "someone" not in json.dumps(recording["exchanges"])
    assert recording["exchanges"][0]["response"]["body"] == "<a>hello ***</a>"


def test_nothing_is_recorded_of_a_provider_that_fails() -> None:
    with pytest.raises(ProviderFailed) as failed:
        record(SERPER, WebQuery("a question of no file", 5), Taped("serper"))
    assert failed.value.failure == NotStored()


def test_an_answer_that_is_not_utf_8_cannot_be_recorded() -> None:
    with pytest.raises(UsageError, match="UTF-8"):
        recorded(b"\xff\xfe")


@given(st.text())
def test_every_body_comes_back_with_the_same_meaning(body: str) -> None:
    body = body.encode("utf-8", "replace").decode()
    told = taped.body_of(recorded(body.encode())["exchanges"][0]["response"])
    try:
        assert json.loads(told) == json.loads(body)
    except ValueError:
        assert told.decode() == body


@pytest.mark.parametrize("body", ["[NaN]", "1e999", "[" * 90_000, '"text"', "12", "true", "[1e999]"])
def test_json_that_is_none_stays_a_text(body: str) -> None:
    assert recorded(body.encode())["exchanges"][0]["response"]["body"] == body


def test_a_file_is_replaced_and_its_documentation_stays(tmp_path: Path) -> None:
    (tmp_path / "contact.json").write_text('{"documentation": ["https://b.example"]}')
    path = write(recorded(b"{}"), tmp_path)
    assert json.loads(path.read_text("utf-8"))["documentation"] == ["https://b.example"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["contact.json"]


@pytest.mark.parametrize("old", ["", "[]", '{"documentation": 3}', "{" * 1000])
def test_a_damaged_file_is_replaced(tmp_path: Path, old: str) -> None:
    (tmp_path / "contact.json").write_text(old)
    recording = recorded(b"{}", documentation=["https://a.example"])
    assert json.loads(write(recording, tmp_path).read_text("utf-8"))["documentation"] == ["https://a.example"]


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere") as failed:
        write(recorded(b"{}"), tmp_path / "nowhere")
    assert "mkdir" in str(failed.value.hint)


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden"])
def test_a_name_that_leads_elsewhere_is_rejected(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        write({**recorded(b"{}"), "provider": name}, tmp_path)
    assert list(tmp_path.iterdir()) == []
