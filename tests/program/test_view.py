"""A tenant sees its own records alone, whichever way it asks: the records of others change no match and no sentence."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import view_asks
from hypothesis import HealthCheck, example, given, settings
from profiles import examples
from samples import write_catalog
from server.test_tenants import Door, build
from view_asks import Row, row

import retrieve_cli
from retrieve_cli import Index
from retrieve_cli.errors import RetrieveError


def index_of(folder: Path, rows: list[Row]) -> Index:
    folder.mkdir(parents=True, exist_ok=True)
    return retrieve_cli.build(write_catalog(folder / "c.jsonl", rows), artifacts=folder / "artifacts")


def ids(answer: Any) -> set[str]:
    return {hit.doc_id for hit in answer}


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Index:
    """1,500 records that have both words of a phrase, and two that have them next to each other, which score low."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RETRIEVE_ENCODER__KIND", "hashed")
        rows = [row(f"r{n}", "sheet beside light", "beta") for n in range(1200)]
        rows += [row(f"a{n}", "sheet beside light") for n in range(300)]
        long = "filler " * 60
        rows += [row("mine", f"{long} a light sheet {long}"), row("theirs", f"{long} a light sheet", "beta")]
        return index_of(tmp_path_factory.mktemp("crowd"), rows)


@pytest.mark.parametrize("choices", [{}, {"tenant": "acme"}, {"doc_ids": ["mine"]}, {"filters": ["id=mine"]}])
def test_a_phrase_is_found_among_any_number_of_candidates(crowd: Index, choices: dict[str, Any]) -> None:
    answer = crowd.search('"light sheet"', limit=5, **choices)
    assert ids(answer) == ({"mine", "theirs"} if not choices else {"mine"})
    assert answer.notices == ()
    excluded = crowd.search('sheet -"light sheet"', limit=2000, expand=False, **choices)
    assert "mine" not in ids(excluded)


def test_a_phrase_that_more_texts_may_have_than_are_compared_is_not_said_to_be_nowhere(
    crowd: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrieve_cli.search.word_search.MOST_COMPARED", 100)
    (notice,) = crowd.search('"light sheet"', tenant="acme").notices
    assert notice == '"light sheet": 301 texts have these words; the first 100 are compared'
    narrowed = crowd.search('"light sheet"', tenant="acme", doc_ids=["mine"])
    assert (ids(narrowed), narrowed.notices) == ({"mine"}, ())


def test_a_field_and_a_value_in_the_text_are_text_to_a_tenant_that_has_no_such_record(tmp_path: Path) -> None:
    rows = [row("lung", "maps the lung"), row("beta", "a beta lung", license="GPL-3.0")]
    others = [row("other", "maps the lung", "beta", license="MIT", shade="dark", size=3)]
    for asked in ("lung tenant:beta", "lung license:MIT", "lung shade:dark", "lung -shade:dark", "lung size:3"):
        both = [index_of(tmp_path / str(len(each)), each) for each in (rows, rows + others)]
        alone, beside = (index.search(asked, tenant="acme") for index in both)
        assert ids(alone) == ids(beside) == {"lung", "beta"}
        assert alone.notices == beside.notices


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Door, Door]]:
    """An index of the records of a tenant and of many others, and one of the tenant's own alone."""
    folder = tmp_path_factory.mktemp("view")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RETRIEVE_TRUST", "1")
        key = build(folder / "all", view_asks.ROWS, foreign=True)
        build(folder / "own", view_asks.ROWS, foreign=False, keys=folder / "all")
        both = Door(folder / "all", key), Door(folder / "own", key)
        yield both
        for door in both:
            door.close()


def told(index: Index, asked: Row) -> Any:
    """Return an answer without its scores and the order that they decide; or the error."""
    try:
        choices = {"text": asked["query"], **asked, "tenant": "acme"}
        choices.pop("query")
        answer = index.search(**choices).to_json()
    except RetrieveError as error:
        return str(error), error.hint
    for apart in ("generation", "timings_ms", "trace", "confidence"):
        answer.pop(apart, None)
    parts = [(hit["doc_id"], hit.get("highlights"), hit["content"]) for hit in answer.pop("results")]
    related = sorted(hit["id"] for hit in answer.pop("related", []))
    if "offset" in asked:  # which records come first, scores decide
        parts = [len(parts)]
    return answer, related, sorted(parts, key=str)


@settings(max_examples=examples(10), suppress_health_check=[HealthCheck.function_scoped_fixture])
@example({"query": "lungs Cyto lungs lungs", "limit": 50})  # names, one of which others have in most texts
@given(asked=view_asks.requests())
def test_an_answer_in_python_tells_nothing_of_others(doors: tuple[Door, Door], asked: Row) -> None:
    beside, alone = (told(door.state.live.index, asked) for door in doors)
    assert beside == alone
