"""Providers of web search that plug-ins add."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from samples import Program
from websearch.fakes.server import Fakes

from retrieve_cli.assemble import extensions
from retrieve_cli.config import plugins
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Plugin
from retrieve_cli.errors import ModelFailed, RetrieveError


@pytest.mark.usefixtures("installed")
def test_the_provider_among_the_plug_ins_is_listed_and_made_with_its_configuration() -> None:
    assert extensions.names("provider") == ["library"], "one that cannot be loaded does not hinder that"
    made: Any = extensions.make("provider", "library", Settings(plugins={"library": {"shelf": "north"}}))
    assert (made.name, made.kind, made.shelf) == ("library", "literature", "north")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "books"}, "its name is 'books'"),
        ({"kind": "paper"}, "its kind 'paper' is not one of web, literature"),
        ({"title": None}, "`title` is not a text"),
        ({"needs": ("KEY",)}, "`needs` is not a tuple of Need"),
        ({"pause_s": -1.0}, "`pause_s` is not a number of seconds"),
        ({"pause_s": float("nan")}, "`pause_s` is not a number of seconds"),
        ({"servers": ()}, "`servers` are not origins"),
        ({"servers": ("http://library.example.org",)}, "`servers` are not origins"),
        ({"servers": ("https://library.example.org/v1",)}, "`servers` are not origins"),
        ({"servers": ("https://[::1",)}, "ValueError"),
    ],
    ids=str,
)
@pytest.mark.usefixtures("installed")
def test_a_provider_that_does_not_keep_its_promise_is_named_before_it_is_asked(
    changes: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = import_module("library")
    changed = replace(library.Library(), **changes)
    monkeypatch.setattr(library, "PROVIDER", Plugin("provider", lambda settings: changed))
    with pytest.raises(ModelFailed, match="the plug-in 'library' cannot be used as a provider") as caught:
        extensions.make("provider", "library", Settings())
    assert said in caught.value.message
    assert "web.providers" in caught.value.hint


@pytest.mark.usefixtures("installed")
def test_a_plug_in_that_raises_anything_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    library = import_module("library")

    def broken(settings: Settings) -> None:
        raise ZeroDivisionError("half done")

    for make in (broken, lambda settings: None):
        monkeypatch.setattr(library, "PROVIDER", Plugin("provider", make))
        plugins.load.cache_clear()
        with pytest.raises(RetrieveError, match="'library' cannot be used as a provider"):
            extensions.make("provider", "library", Settings())


# ------------------------------------------------------------------------------------------ in a search

NORTH = {
    "title": "Guides of the north",
    "doi": "10.99999/north.1",
    "author": "Ada Quill",
    "year": 2024,
    "about": "Ice.",
}
SOUTH = {"title": "Guides of the south", "doi": "10.99999/south.2", "author": "Ben Rook", "year": 2023, "about": "Sun."}


@pytest.fixture
def library(installed: None, fakes: Fakes) -> Fakes:
    """A configuration with the plug-in as the only provider, and its server, which knows guides."""
    parameters = {"q": "guides", "n": "5", "shelf": "north"}
    request = {"method": "GET", "url": "https://library.example.org/search", "parameters": parameters, "body": None}
    body = {"total": 41, "books": [NORTH, SOUTH]}
    response = {"status": 200, "content_type": "application/json", "headers": {}, "body": body}
    fakes.add([{"request": request, "response": response}])
    web = {"enabled": True, "providers": ["library"], "endpoints": fakes.endpoints}
    Path("config.yaml").write_text(yaml.safe_dump({"web": web, "plugins": {"library": {"shelf": "north"}}}), "utf-8")
    return fakes


@pytest.mark.parametrize("words", [(), ("--provider", "library")])
def test_a_provider_of_a_plug_in_is_asked_as_a_built_in_one(
    words: tuple[str, ...], library: Fakes, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIBRARY_KEY", "quetzal")
    done = retrieve("web", "guides", "-k", "5", "--json", *words)
    assert done.code == 0, done.err
    assert [result["id"] for result in done.json["results"]] == ["doi:10.99999/north.1", "doi:10.99999/south.2"]
    (status,) = done.json["providers"]
    assert (status["provider"], status["status"], status["total"]) == ("library", "ok", 41)
    (call,) = library.calls
    assert call.headers["x-key"] == "quetzal"


@pytest.mark.usefixtures("library")
def test_a_plug_in_that_raises_in_a_search_is_a_provider_that_failed(
    retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("half done")

    monkeypatch.setattr(import_module("library").Library, "search", broken)
    done = retrieve("web", "guides", "--json")
    assert done.code == 8
    (status,) = done.json["providers"]
    assert status["status"] == "malformed"
    assert "half done" in status["message"]
