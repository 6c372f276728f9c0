"""Filters through engines: the answer is that of local files, and what engines are told is the mask, to the letter."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from engines.contents import admits
from engines.injected import Servers, inject, said
from engines.sqlite_collections import SqliteVectors
from engines.sqlite_engine import SqliteEngine
from hypothesis import given, settings as law, strategies as st
from profiles import examples
from samples import write_catalog

from retrieve_cli.api.index import Index
from retrieve_cli.cli.main import main
from retrieve_cli.config import loading
from retrieve_cli.contracts import Request
from retrieve_cli.contracts.engines import Capabilities, Label, Within
from retrieve_cli.errors import UsageError
from retrieve_cli.ingest.sending import RowLabels
from retrieve_cli.search.questions import RequestReader
from retrieve_cli.storage.generation import Generation, open_generation
from retrieve_cli.storage.store import Store

INJECTIONS = [
    "x'); DROP TABLE rows; --",
    'a" OR "1"="1',
    "%",
    "_",
    "\\",
    "{{id}}",
    "$where",
    "a,b",
    "*",
    "id == 'x' || true",
    "жёлтый",
    "ﬁ",
    "İstanbul",
]
FIELDS = ["license", "dims", "group", "shade", "specs.dose", "dose", "name", 'odd"field', "a b.c", "keyword", "source"]
VALUES = ["MIT", "mit", "GPL-3.0", "3", "12", "1e1", "one", "M*", "*", "?", "tool 1*", "dark", "Dark", *INJECTIONS]
WORDS = ["open", "single", "cell", "matrices", "store", "tables", "paint", "walls"]


def record(number: int) -> dict[str, Any]:
    """A record with some of the fields, in several spellings, of one tenant, two, or none."""
    pick = np.random.default_rng(number)

    def one_of(values: Sequence[Any]) -> Any:
        return values[int(pick.integers(len(values)))]

    made: dict[str, Any] = {
        "id": f"{one_of(INJECTIONS)} {number}" if number % 3 == 0 else f"r{number}",
        "name": f"Tool {number}",
        "description": " ".join(one_of(WORDS) for _ in range(6)),
        "license": one_of(["MIT", "mit", "GPL-3.0", None]),
        "group": one_of(["one", "two", *INJECTIONS]),
        "keywords": [one_of(["cells", "Cells", *INJECTIONS]) for _ in range(2)],
        "shade": one_of(["dark", "Dark", 3, "03"]),
        "tenant": one_of(["acme", "beta", ["beta", "acme"], "ACME", "a' OR 'a'='a", None]),
        "supportingData": {"datasetFormat": "dcm", "hasDimensionality": int(pick.integers(2, 5))},
        'odd"field': one_of(INJECTIONS),
        "a b": {"c": one_of(INJECTIONS)},
        "requires_tool": [f"Tool {int(pick.integers(40))}"],
    }
    if made["tenant"] == "beta":  # `dose` is two fields, but to a tenant one
        made["zq"] = {"dose": int(pick.integers(9)), "shade": 1}
    elif number % 2:
        made["specs"] = {"dose": int(pick.integers(20))}
    return made


class World(NamedTuple):
    """One index, opened through engines and from local files."""

    remote: Index
    local: Index
    generation: Generation
    questions: RequestReader
    labels: Sequence[Label]
    """One of each record."""

    def answers(self, requests: Sequence[Request], **options: Any) -> tuple[list[Any], list[Any]]:
        """Return the answers to some requests through engines, and from local files."""
        remote, local = (
            [said(answer.to_json()) for answer in index.search_many(requests, **options)]
            for index in (self.remote, self.local)
        )
        return remote, local


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("conditions")
    servers = Servers(folder / "servers").create()
    write_catalog(folder / "tools.jsonl", [record(number) for number in range(120)])
    common = {"RETRIEVE_ENCODER__KIND": "hashed", "RETRIEVE_FUSION__METHOD": "rrf"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        inject(patch.setattr)
        patch.setattr("retrieve_cli.engines.index.NAMED", 0)  # conditions are sent
        patch.setattr(SqliteEngine, "capabilities", Capabilities(most_rows=0))
        for name, value in {**common, **servers.environment()}.items():
            patch.setenv(name, value)
        assert main(["build", "--catalog", "tools.jsonl", "--quiet"]) == 0
        settings = loading.load(None, os.environ)
        store = Store(Path("artifacts").resolve())
        with (
            Index(store, settings) as remote,
            Index(store, loading.load(None, common)) as local,
            open_generation(store) as generation,
        ):
            labels = RowLabels(generation).of("record", range(len(generation.records)))
            yield World(remote, local, generation, RequestReader(generation, settings=settings), labels)


def _value(text: str, quoted: bool) -> str:
    """A value as filters write it; quoted if it must be."""
    return '"' + text.replace('"', '""') + '"' if quoted or set('",') & set(text) else text


plain = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "!"]),
    st.sampled_from(FIELDS),
    st.sampled_from(["=", "!="]),
    st.lists(st.builds(_value, st.sampled_from(VALUES), st.booleans()), min_size=1, max_size=3).map(",".join),
)
compared = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "!"]),
    st.sampled_from(["dims", "specs.dose", "dose", "shade"]),
    st.sampled_from([">=", "<=", ">", "<"]),
    st.integers(-1, 12),
)
ids = st.sampled_from([record(number)["id"] for number in range(0, 40, 3)])


@st.composite
def requests(draw: st.DrawFn) -> Request:
    excluded = draw(st.lists(ids.filter(lambda name: not set("[],:*") & set(name)), max_size=2))
    tags = "".join(f" [EXCLUDE:{name}]" for name in excluded)
    return Request(
        text=" ".join(draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4))) + tags,
        id=str(draw(st.integers(0, 99))),
        filters=tuple(draw(st.lists(plain | compared, max_size=2))),
        doc_ids=tuple(draw(st.lists(ids, max_size=2))) if draw(st.booleans()) else (),
        tenant=draw(st.sampled_from([None, None, "acme", "beta", "ACME", "a' OR 'a'='a"])),
    )


@law(max_examples=examples(5))
@given(request=requests())
def test_engines_are_told_the_mask_of_a_request_or_nothing(world: World, request: Request) -> None:
    try:
        query = world.questions.read(request).query
    except UsageError:
        return
    assert query.conditions is not None
    if (conditions := query.conditions()) is None:
        assert any(name.startswith(("section", "facets.")) for name in request.filters)
        return
    mask = np.ones(len(world.labels), np.bool_) if query.records is None else query.records
    assert [admits(conditions, label) for label in world.labels] == mask.tolist()


@pytest.mark.parametrize("text", INJECTIONS)
def test_no_value_of_a_filter_is_read_as_a_query(world: World, text: str) -> None:
    value = _value(text, quoted=True)
    for field in ("group", 'odd"field', "a b.c", "keyword", "id"):
        request = Request(text="open cell", filters=(f"{field}={value}",))
        remote, local = world.answers([request], k=50)
        assert remote == local
        assert remote[0]["total_results"] < 120


def test_a_name_means_the_field_that_the_tenant_sees(world: World) -> None:
    """Among all records, `dose` is two fields; the tenant ACME has records with one of them."""
    request = Request(text="open cell store", filters=("dose>=0",), tenant="ACME")
    remote, local = world.answers([request])
    assert remote == local
    assert remote[0]["results"]
    with pytest.raises(UsageError, match="no record has a field 'dose'"):
        world.remote.search_many([Request(text="open", filters=("dose>=0",))])


def test_searches_reach_the_engine_with_conditions(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the other tests hold would hold as well if engines were never told a condition."""
    seen: list[Within | None] = []
    nearest = SqliteVectors.nearest

    def watched(self: Any, query: Any, limit: int, *, within: Within | None = None) -> Any:
        seen.append(within)
        return nearest(self, query, limit, within=within)

    monkeypatch.setattr(SqliteVectors, "nearest", watched)
    world.remote.search_many([Request(text="open cell", filters=("license=MIT",), tenant="acme")])
    assert seen
    for within in seen:
        assert within is not None
        assert {each.field for each in within.conditions} == {"tenant", "license"}
