"""Every choice means the same in every door: the same value has the same effect, and a bad one is an error there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from asked_samples import VALUES
from golden.corpora import TOOLS
from samples import Program
from servers import built
from starlette.requests import Request as HttpRequest

import retrieve_cli
from retrieve_cli.api.asked import Asked, read_asked
from retrieve_cli.api.choices import SEARCH
from retrieve_cli.api.index import Index
from retrieve_cli.api.requests import kinds_of, request_of
from retrieve_cli.api.table import PAGE, PYTHON, Choice
from retrieve_cli.cli.elsewhere import request_of as sent
from retrieve_cli.errors import UsageError
from retrieve_cli.server.http.search import from_parameters
from retrieve_cli.server.page.address import Address

MORE: dict[str, Any] = {
    "grade": 0.2, "similarity_top_k": 3, "rerank_keep": 2, "rerank_min_score": 0.1, "rerank_depth": 4,
    "rerank_interpolate": 1.0, "rerank": False, "related": "brief", "engine": "naive", "max_chunks": 1,
}  # fmt: skip
GOOD: dict[str, Any] = {**{name: values[0] for name, values in VALUES.items()}, **MORE}
"""A value of each choice that reaches a search, files apart: each door has them in another form."""
ROWS = [row for row in SEARCH.in_door(PYTHON).values() if row.name != "files"]
BAD: dict[str, Any] = {"integer": -1, "number": 1e12, "boolean": "perhaps", "string": 7, "array": [7]}


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("tools"), TOOLS, RETRIEVE_CHUNKING__SIZE="40")


@pytest.fixture
def opened(tools: Path) -> Iterator[Index]:
    with retrieve_cli.open(tools) as index:
        yield index


def by_link(**parameters: Any) -> Asked:
    query = urlencode({"q": "lungs", **parameters}, doseq=True).encode()
    return read_asked(from_parameters(HttpRequest({"type": "http", "query_string": query, "headers": []})))


def words(row: Choice, value: Any) -> list[str]:
    """A value as flags of the command line."""
    if row.is_switch:
        return [flag for flag in row.flags.replace("/", " ").split() if flag.startswith("--no-") is not value][:1]
    values = value if isinstance(value, list) else [value]
    return [word for each in ([",".join(values)] if row.is_names else values) for word in (row.flag, str(each))]


def test_a_value_is_known_of_every_choice() -> None:
    assert {row.name for row in ROWS} == set(GOOD)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_door_reads_the_same_from_a_value(row: Choice, opened: Index) -> None:
    value = GOOD[row.name]
    body = read_asked({"query": "lungs", row.name: value})
    python = request_of("lungs", {row.name: value}), opened.options(**{row.name: value})  # type: ignore[misc]
    assert python[0] == body.request
    assert python[1] == opened.options(**body.choices).by(body.request.retrievers)  # type: ignore[misc]
    for spelling in (row.name, *row.aliases):
        assert read_asked({"query": "lungs", spelling: value}) == body
        assert by_link(**{spelling: str(value).lower() if isinstance(value, bool) else value}) == body
        assert opened.options(**{spelling: value}) == python[1]  # type: ignore[misc]
        assert request_of("lungs", {spelling: value}) == python[0]
    if row.flags:
        assert read_asked(sent({row.chosen: value}, "lungs")) == body
    if PAGE in row.doors:
        one = value[0] if isinstance(value, list) else value
        text = {True: "yes", False: "no"}.get(one, str(one)) if isinstance(one, bool) else str(one)
        address = Address.of([("q", "lungs"), (row.name, text)])
        assert address.asked(facets=(), tenant=None).choices.items() >= body.choices.items()


@pytest.mark.parametrize("row", [row for row in ROWS if row.flags], ids=lambda row: row.name)
def test_a_flag_has_the_effect_of_the_key(row: Choice, opened: Index, tools: Path, retrieve: Program) -> None:
    asked = read_asked({"query": "lungs", row.name: GOOD[row.name]})
    done = retrieve("query", "lungs", "--json", "--artifacts", tools, *words(row, GOOD[row.name]))
    if row.name == "min_confidence":  # these scores are not calibrated
        with pytest.raises(UsageError, match="no calibration"):
            opened.answer([asked.request], opened.options(**asked.choices))  # type: ignore[misc]
        assert (done.code, "no calibration" in done.err) == (2, True)
        return
    (answer,) = opened.answer([asked.request], opened.options(**asked.choices))  # type: ignore[misc]
    assert done.code == 0, done.err
    printed = done.json
    assert [result["id"] for result in printed["results"]] == [result.id for result in answer.results]
    assert printed["pipeline"] == answer.pipeline


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_bad_value_is_an_error_in_every_door(row: Choice, opened: Index, tools: Path, retrieve: Program) -> None:
    kind = kinds_of(row.schema)[0]
    value = BAD[kind] if "enum" not in row.schema else "nothing"
    if row.name in ("like", "not_like", "doc_ids"):  # a number is an id
        value = [True]
    with pytest.raises(UsageError, match=row.name):
        read_asked({"query": "lungs", row.name: value})
    with pytest.raises(UsageError):
        opened.search("lungs", **{row.name: value})
    if not row.several and kind != "string":
        with pytest.raises(UsageError, match=row.name):
            by_link(**{row.name: value})
    if row.flags and kind in ("integer", "number"):
        done = retrieve("query", "lungs", "--artifacts", tools, f"{row.flags.split()[-2]}={value}")
        assert (done.code, done.out) == (2, ""), row.name
        assert row.flags.split()[-2].lstrip("-") in done.err or row.flag in done.err


@pytest.mark.parametrize(
    "filters",
    ["license=MIT", ["license=MIT"], {"license": "MIT"}, '{"license": "MIT"}', ['{"license": "MIT"}']],
    ids=str,
)
def test_conditions_are_a_text_a_list_or_an_object_in_every_door(
    filters: Any, opened: Index, tools: Path, retrieve: Program
) -> None:
    expected = ["license=MIT"]
    assert list(read_asked({"query": "brain", "filters": filters}).request.filters) == expected
    assert list(request_of("brain", {"filters": filters}).filters) == expected
    assert opened.records(filters=filters) == opened.records(filters="license=MIT") != []
    text = json.dumps(filters) if isinstance(filters, dict) else filters if isinstance(filters, str) else filters[0]
    assert list(by_link(filters=text).request.filters) == expected
    done = retrieve("query", "brain", "--filter", text, "--json", "--artifacts", tools)
    assert done.json["filters"] == {"license": "license=MIT"}


def test_a_hint_for_programs_has_keys_in_place_of_flags_and_nothing_else_changed() -> None:
    hint = "omit --mode, or use the others: --mode bm25; -k 3 (--no-rerank); see well-known -- and --allowed-host HOST"
    assert SEARCH.without_flags(hint) == (
        "omit `mode`, or use the others: `mode` bm25; `limit` 3 (`rerank`); see well-known -- and --allowed-host HOST"
    )
    assert SEARCH.without_flags("no flag") == "no flag"
