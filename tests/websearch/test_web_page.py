"""docs/web.md tells the truth about providers, results and statuses."""

from __future__ import annotations

import re
from typing import get_args

import pytest
from samples import ROOT
from web_answers import PREPRINT, answer

from retrieve_cli.assemble.websearch import provider
from retrieve_cli.config.query_settings import PROVIDERS
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts.websearch import Failure
from retrieve_cli.output.web_works import web_json

PAGE = (ROOT / "docs" / "web.md").read_text("utf-8")
ROW = re.compile(r"^\| `([a-z0-9_]+)` \| [^|]+ \| [^|]+ \| [0-9]+ per .*$", re.MULTILINE)
ROWS = {row[1]: row[0] for row in ROW.finditer(PAGE)}
"""Row of each provider in the table of providers."""


def keys_of(heading: str) -> set[str]:
    """The names in the first column of the table below a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`.*?`) \|", section, re.MULTILINE)
    return {name for cell in cells for name in re.findall("`([^`]+)`", cell)}


def test_every_provider_is_in_the_table_in_the_order_of_first() -> None:
    assert tuple(ROWS) == PROVIDERS


@pytest.mark.parametrize("name", PROVIDERS)
def test_the_row_of_a_provider_has_its_variables_rate_and_terms(name: str) -> None:
    made, row = provider(name, Settings()), ROWS[name]
    _, _, _, variables, rate, terms, _ = (cell.strip() for cell in row.split("|"))
    assert re.findall("`([A-Z0-9_]+)`", variables) == [need.variable for need in made.needs]
    assert variables.count("(required)") == sum(need.required for need in made.needs)
    assert rate == f"{made.rate.requests} per {made.rate.seconds:g} s"
    assert terms == f"<{made.terms}>"


def test_every_key_of_a_result_is_described() -> None:
    (result,) = web_json(answer(PREPRINT))["results"]
    assert set(result) - {"rank"} == keys_of("The answer")


def test_every_status_is_described() -> None:
    assert keys_of("Failures") >= {"ok", "not_asked", "not_configured", *(kind.kind for kind in get_args(Failure))}
