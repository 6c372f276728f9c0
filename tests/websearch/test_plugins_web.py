"""Providers of web search that plug-ins add."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from retrieve_cli.assemble import extensions
from retrieve_cli.config import plugins
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Plugin
from retrieve_cli.contracts.websearch import Rate
from retrieve_cli.errors import ModelFailed, RetrieveError, UsageError

TOYS = Path(__file__).parent.parent / "program" / "toys"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, EntryPoint]]:
    """The plug-ins that are installed: a provider, a reranker, and one that cannot be loaded."""
    monkeypatch.syspath_prepend(TOYS)
    points = {
        name: EntryPoint(name, place, plugins.GROUP)
        for name, place in (("library", "library:PROVIDER"), ("shortest", "parts:RERANKER"), ("gone", "no_such:PART"))
    }
    monkeypatch.setattr(plugins, "installed", lambda: points)
    plugins.load.cache_clear()
    yield points
    plugins.load.cache_clear()


@pytest.mark.usefixtures("installed")
def test_a_provider_is_made_with_the_configuration_of_its_plug_in() -> None:
    made: Any = extensions.make("provider", "library", Settings(plugins={"library": {"shelf": "north"}}))
    assert (made.name, made.kind, made.shelf) == ("library", "literature", "north")


@pytest.mark.usefixtures("installed")
def test_only_providers_are_listed_and_one_that_cannot_be_loaded_does_not_hinder_that() -> None:
    assert extensions.names("provider") == ["library"]


@pytest.mark.parametrize("name", ["shortest", "nobody"])
@pytest.mark.usefixtures("installed")
def test_a_plug_in_of_another_kind_is_not_a_provider(name: str) -> None:
    with pytest.raises(UsageError, match=f"'{name}' is not a provider") as caught:
        extensions.make("provider", name, Settings())
    assert caught.value.hint


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "books"}, "its name is 'books'"),
        ({"kind": "paper"}, "its kind 'paper' is not one of web, literature"),
        ({"title": None}, "`title` and `terms` are not texts"),
        ({"needs": ("KEY",)}, "`needs` is not a tuple of Need"),
        ({"rate": Rate(0, 1.0)}, "`rate` is not a Rate of at least one request"),
        ({"rate": Rate(1, float("nan"))}, "`rate` is not a Rate of at least one request"),
        ({"servers": ()}, "`servers` are not origins"),
        ({"servers": ("http://library.example.org",)}, "`servers` are not origins"),
        ({"servers": ("https://library.example.org/v1",)}, "`servers` are not origins"),
        ({"servers": ("https://[::1",)}, "ValueError"),
    ],
    ids=str,
)
def test_a_provider_that_does_not_keep_its_promise_is_named_before_it_is_asked(
    changes: dict[str, Any], said: str, installed: dict[str, EntryPoint], monkeypatch: pytest.MonkeyPatch
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
