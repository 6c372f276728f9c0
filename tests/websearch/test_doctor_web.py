"""`retrieve doctor` about web search: what cannot be asked is named with its fix, and nothing is sent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from samples import Program
from websearch.fakes.server import Fakes

from retrieve_cli.config.settings import Settings, WebSettings
from retrieve_cli.operations.doctor.checks import examine
from retrieve_cli.operations.doctor.subject import Check

EMAIL = "NCBI_EMAIL"


def found(monkeypatch: pytest.MonkeyPatch, *, variables: Sequence[str] = (EMAIL,), **section: object) -> Check:
    """The finding under a section `web`, with some variables set."""
    for variable in variables:
        monkeypatch.setenv(variable, "someone@example.org")
    settings = Settings(web=WebSettings(enabled=True, **section))  # type: ignore[arg-type]
    (check,) = examine(Path("artifacts"), None, settings=settings, names=["web"])
    assert bool(check.fix) == (check.status != "ok")
    return check


def test_providers_that_can_be_asked_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    check = found(monkeypatch, providers=("pubmed", "arxiv"))
    assert (check.status, check.message) == ("ok", "2 providers can be asked: pubmed, arxiv")


def test_keys_that_are_missing_or_blank_are_named_with_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    check = found(monkeypatch, variables=(EMAIL, "SERPER_API_KEY"), providers=("tavily", "serper", "pubmed"))
    assert check.status == "warn"
    assert "tavily (TAVILY_API_KEY)" in check.message
    assert "SERPER" not in check.message
    assert check.fix == "export TAVILY_API_KEY=…, or set web.providers: [serper, pubmed]"
    monkeypatch.setenv("TAVILY_API_KEY", "  ")
    assert "TAVILY_API_KEY" in found(monkeypatch, providers=("tavily", "pubmed")).message


@pytest.mark.usefixtures("installed")
def test_a_plug_in_that_cannot_be_loaded_is_a_failure_and_the_others_are_still_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check = found(monkeypatch, variables=(), providers=("gone", "pubmed"))
    assert check.status == "fail"
    assert "'gone'" in check.message
    assert EMAIL in check.message


def test_the_command_prints_it_and_sends_nothing(
    tmp_path: Path, retrieve: Program, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    section = {"enabled": True, "providers": ["pubmed", "arxiv"], "endpoints": fakes.endpoints}
    Path("config.yaml").write_text(yaml.safe_dump({"web": section}), "utf-8")
    (check,) = [check for check in examine(Path("artifacts"), None) if check.name == "web"]
    assert EMAIL in check.message
    done = retrieve("doctor")
    assert "fix: export NCBI_EMAIL=you@example.org" in done.out
    assert fakes.calls == []
