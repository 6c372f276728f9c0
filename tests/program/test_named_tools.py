"""Tools that a query names by their identifiers come first, in its order; ordinary words name none."""

import json
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import retrieve_cli
from retrieve_cli.api.index import Index
from retrieve_cli.contracts import NAMED

NAMES = ["git_status", "git_commit", "gitDiffAll", "list-files", "fetch.url", "search", "time", "GET /pets/{petId}"]
SERVERS = ["git", "other"]
PLAIN = frozenset({"search", "time", "GET /pets/{petId}"})
"""Names that need quotation marks within a sentence."""
WORDS = st.sampled_from(
    ["use", "then", "please", "search for", "the time of", "and", "files?", "status (new)", "read/write"]
)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    folder = tmp_path_factory.mktemp("named")
    listed = [
        {
            "name": server,
            "tools": [{"name": name, "description": f"Works on {server}.", "inputSchema": {}} for name in NAMES],
        }
        for server in SERVERS
    ]
    (folder / "tools.json").write_text(json.dumps(listed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RETRIEVE_ENCODER__KIND", "hashed")
        retrieve_cli.build(folder / "tools.json", artifacts=folder / "artifacts")
        with retrieve_cli.open(folder / "artifacts") as index:
            yield index


def first(tools: Index, query: str, **options: object) -> list[str]:
    """Return the records of the answer that are there because the query names them."""
    results = tools.search(query, k=len(NAMES) * len(SERVERS), **options).results
    named = [any(why.source == NAMED for why in result.hit.evidence) for result in results]
    assert sorted(named, reverse=True) == named
    return [result.doc_id for result, is_named in zip(results, named, strict=True) if is_named]


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(SERVERS), st.sampled_from(NAMES)), min_size=1, max_size=6, unique=True),
    st.lists(WORDS, min_size=7, max_size=7),
    st.sampled_from(["`{}`", "`{}`,", '"{}"']),
    st.booleans(),
)
def test_any_tools_named_in_a_sentence_are_first_in_its_order(
    tools: Index, named: list[tuple[str, str]], words: list[str], quotes: str, upper: bool
) -> None:
    ids = [f"{server}/{name}" for server, name in named]
    texts = [quotes.format(id_) if id_.partition("/")[2] in PLAIN else id_ for id_ in ids]
    query = " ".join(part for pair in zip(words, texts, strict=False) for part in pair) + f" {words[-1]}"
    assert first(tools, query.swapcase() if upper else query) == ids


@pytest.mark.parametrize("name", NAMES)
def test_a_name_alone_has_the_tools_of_every_server(name: str, tools: Index) -> None:
    assert sorted(first(tools, f" {name.upper()} ")) == [f"{server}/{name}" for server in SERVERS]


def test_ordinary_words_name_nothing_and_filters_and_exclusions_apply(tools: Index) -> None:
    assert first(tools, "search the time, please, with seArch") == []
    assert first(tools, "git_status", filters=["server=other"]) == ["other/git_status"]
    assert first(tools, "git_status [EXCLUDE:other/git_status]") == ["git/git_status"]
