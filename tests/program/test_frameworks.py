"""Retrievers for LangChain, LlamaIndex and Haystack, with the real packages: the answers of `index.search`."""

import asyncio
import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from samples import TOOLS

import retrieve_cli as retrieve
from retrieve_cli.api.requests import conditions
from retrieve_cli.api.writable import WritableIndex
from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.integrations import scores_of

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # before its import
QUERY = "segments brain volumes"


@pytest.fixture
def tools() -> Iterator[WritableIndex]:
    with retrieve.build(TOOLS) as index:
        yield index


def ids(index: WritableIndex, **choices: Any) -> list[str]:
    return [result.id for result in index.search(QUERY, **choices)]


def test_langchain_searches_with_filters_and_choices(tools: WritableIndex) -> None:
    from langchain_core.retrievers import BaseRetriever

    from retrieve_cli.integrations.langchain import LangChainRetriever

    retriever = LangChainRetriever(index=tools, k=3)
    assert isinstance(retriever, BaseRetriever)
    assert [document.id for document in retriever.invoke(QUERY)] == ids(tools, k=3)
    assert [document.id for document in asyncio.run(retriever.ainvoke(QUERY, k=2))] == ids(tools, k=2)
    narrow = LangChainRetriever(index=tools, filters={"license": "MIT"}, choices={"mode": "bm25"})
    assert [document.id for document in narrow.invoke(QUERY)] == ids(tools, filters="license=MIT", mode="bm25")
    (document, *_) = documents = retriever.invoke(QUERY, filters={"group": "microscopy"})
    (result, *_) = tools.search(QUERY, k=3, filters="group=microscopy")
    assert len(documents) == 2
    assert document.page_content == result.text
    assert {
        "id": result.id,
        "score": result.score,
        "relevance": None,
        "source": "inbox",
        "url": result.url,
    }.items() <= (document.metadata.items())
    chained = retriever | (lambda found: [each.metadata["doc_id"] for each in found])
    assert chained.invoke(QUERY) == [result.doc_id for result in tools.search(QUERY, k=3)]
    with pytest.raises(UsageError, match="'serach'"):
        retriever.invoke(QUERY, serach=1)


def test_llamaindex_gives_nodes_with_scores(tools: WritableIndex) -> None:
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import MetadataMode

    from retrieve_cli.integrations.llamaindex import LlamaIndexRetriever

    retriever = LlamaIndexRetriever(tools, k=3, filters={"license": "MIT"})
    assert isinstance(retriever, BaseRetriever)
    nodes = retriever.retrieve(QUERY)
    answer = tools.search(QUERY, k=3, filters={"license": "MIT"})
    assert [(node.node_id, node.score, node.text) for node in nodes] == [(r.id, r.score, r.text) for r in answer]
    assert [node.node_id for node in asyncio.run(retriever.aretrieve(QUERY))] == [result.id for result in answer]
    shown = nodes[0].node.get_content(MetadataMode.LLM)
    assert answer[0].name in shown
    assert "score" not in shown


def test_haystack_runs_in_a_pipeline_and_is_stored_with_it(tools: WritableIndex) -> None:
    from haystack import Pipeline

    from retrieve_cli.integrations.haystack import HaystackRetriever

    mit = {"field": "meta.license", "operator": "==", "value": "MIT"}
    pipeline = Pipeline()
    pipeline.add_component("retriever", HaystackRetriever(top_k=3, filters=mit, choices={"mode": "bm25"}))
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=["retrieve_cli.integrations.*"])
    for each in (pipeline, again):
        found = each.run({"retriever": {"query": QUERY}})["retriever"]["documents"]
        assert [document.id for document in found] == ids(tools, k=3, filters="license=MIT", mode="bm25")
    retriever = HaystackRetriever(str(Path("artifacts").resolve()))
    retriever.warm_up()
    found = asyncio.run(retriever.run_async(QUERY, filters=mit, top_k=1))["documents"]
    (result,) = tools.search(QUERY, k=1, filters="license=MIT")
    assert [(each.id, each.content, each.score, each.meta["doc_id"]) for each in found] == [
        (result.id, result.text, result.score, result.doc_id)
    ]


def test_a_score_is_the_relevance_only_if_every_result_has_one(
    tools: WritableIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    from retrieve_cli.frozen import replace

    answer = tools.search(QUERY, k=2)
    assert scores_of(answer) == [result.score for result in answer]
    sure = [replace(result, confidence=0.9 - 0.1 * result.rank) for result in answer]
    assert scores_of(replace(answer, results=tuple(sure))) == pytest.approx([0.8, 0.7])
    assert scores_of(replace(answer, results=(sure[0], answer[1]))) == [result.score for result in answer]


PACKAGES = {"langchain": "langchain_core", "llamaindex": "llama_index", "haystack": "haystack"}


@pytest.mark.parametrize("name", PACKAGES)
def test_a_framework_that_is_not_installed_is_named_with_its_install_line(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [PACKAGES[name], *(each for each in sys.modules if each.startswith(f"{PACKAGES[name]}."))]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, f"retrieve_cli.integrations.{name}", raising=False)
    with pytest.raises(Unavailable, match="is not installed") as caught:
        importlib.import_module(f"retrieve_cli.integrations.{name}")
    assert caught.value.hint == f"pip install 'retrieve-cli[{name}]'"


# ---------------------------------------------------------------------------------------- filters of Haystack

RECORDS = [
    {"id": f"{kind}{n}", "name": "Kettle", **({"shape": kind} if kind else {}), **({"n": n} if n else {})}
    for kind in ("", "x", "y", "z")
    for n in (0, 1, 2, 3)
]
COMPARISONS = st.one_of(
    st.builds(
        lambda operator, value: {"field": "meta.shape", "operator": operator, "value": value},
        st.sampled_from(["==", "!="]),
        st.sampled_from(["x", "y", "z", None]),
    ),
    st.builds(
        lambda operator, value: {"field": "shape", "operator": operator, "value": value},
        st.sampled_from(["in", "not in"]),
        st.lists(st.sampled_from(["x", "y", "z", "other"]), min_size=1, max_size=3),
    ),
    st.builds(
        lambda operator, value: {"field": "meta.n", "operator": operator, "value": value},
        st.sampled_from(["==", "!=", ">", ">=", "<", "<="]),
        st.sampled_from([1, 2, 3]),
    ),
)
FILTERS = st.recursive(
    COMPARISONS,
    lambda inner: st.builds(
        lambda operator, parts: {"operator": operator, "conditions": parts},
        st.sampled_from(["AND", "OR", "NOT"]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=5,
)


def test_filters_of_haystack_mean_what_they_mean_there() -> None:
    from haystack import Document
    from haystack.utils.filters import document_matches_filter

    from retrieve_cli.integrations.haystack import conditions_of

    index = retrieve.build(RECORDS)
    documents = [Document(id=each["id"], meta={key: each[key] for key in ("shape", "n") if key in each})
                 for each in RECORDS]  # fmt: skip
    outcomes: dict[bool, int] = {True: 0, False: 0}

    @given(FILTERS)
    @settings(max_examples=100)
    def check(filters: dict[str, Any]) -> None:
        try:
            written = [str(condition) for condition in conditions_of(filters)]
        except UsageError as error:
            outcomes[False] += 1
            if "OR joins values of one field" not in error.hint:
                raise
            return
        outcomes[True] += 1
        passing = [record["id"] for record in index.records(filters=conditions(written, "filters"))]
        assert passing == [each.id for each in documents if document_matches_filter(filters, each)]

    check()
    assert outcomes[True] > outcomes[False] > 0


@pytest.mark.parametrize(
    ("filters", "words"),
    [
        ({"license": "MIT"}, "a filter is a comparison or AND, OR or NOT"),
        ({"field": "n", "operator": "like", "value": "x"}, "has the operator 'like'"),
        ({"field": "n", "operator": ">", "value": "2020-01-01"}, "which is not a number"),
        ({"field": "n", "operator": ">", "value": None}, "must be a string, a number"),
        ({"operator": "OR", "conditions": [{"field": "n", "operator": "==", "value": 1},
                                           {"field": "m", "operator": "==", "value": 1}]}, "no filter means either"),
    ],
)  # fmt: skip
def test_a_filter_that_cannot_be_expressed_is_an_error(filters: dict[str, Any], words: str) -> None:
    from retrieve_cli.integrations.haystack import conditions_of

    with pytest.raises(UsageError) as caught:
        conditions_of(filters)
    assert words in caught.value.message
