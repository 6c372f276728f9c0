"""Retrievers for LangChain, LlamaIndex and Haystack, with the real packages: the answers of `index.search`."""

import asyncio
import copy
import dataclasses
import importlib
import inspect
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from samples import TOOLS

import retrieve_cli as retrieve
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


# ------------------------------------------------------------------------------------------ obey or refuse


class Places:
    """The three retrievers of one index, each asked in the words of its framework."""

    def __init__(self, index: WritableIndex | str) -> None:
        from retrieve_cli.integrations.haystack import HaystackRetriever
        from retrieve_cli.integrations.langchain import LangChainRetriever
        from retrieve_cli.integrations.llamaindex import LlamaIndexRetriever

        self.langchain, self.llamaindex, self.haystack = LangChainRetriever, LlamaIndexRetriever, HaystackRetriever
        self.made = [LangChainRetriever(index=index, k=3), LlamaIndexRetriever(index, k=3),
                     HaystackRetriever(index, top_k=3)]  # fmt: skip


def asked(retriever: Any, query: str = QUERY, **choices: Any) -> list[str]:
    if hasattr(retriever, "invoke"):
        return [document.id for document in retriever.invoke(query, **choices)]
    if hasattr(retriever, "retrieve"):
        return [node.node_id for node in retriever.retrieve(query)]
    return [document.id for document in retriever.run(query, **choices)["documents"]]


def test_retrievers_take_a_path_and_can_be_pickled_and_copied(
    tools: WritableIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = ids(tools, k=3)
    stored = []
    for index in (tools, "artifacts", Path("artifacts")):
        for retriever in Places(index).made:
            assert asked(retriever) == wanted
            stored.append(pickle.dumps(retriever))
            assert asked(copy.deepcopy(retriever)) == wanted
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert [asked(pickle.loads(each)) for each in stored[:3]] == [wanted] * 3
    retrievers = Places(tools).made
    tools.close()
    for retriever in retrievers:
        with pytest.raises(UsageError, match="the index is closed"):
            pickle.dumps(retriever)


def test_a_pipeline_that_cannot_store_an_open_index_says_so(tools: WritableIndex) -> None:
    with pytest.raises(UsageError, match="cannot store an open index"):
        Places(tools).made[2].to_dict()


def test_an_empty_text_in_a_batch_fails_alone(tools: WritableIndex) -> None:
    retriever = Places(tools).made[0]
    batches = (retriever.batch([QUERY, "", QUERY], return_exceptions=True),
               asyncio.run(retriever.abatch([QUERY, " ", QUERY], return_exceptions=True)))  # fmt: skip
    for first, second, third in batches:
        assert [document.id for document in first] == [document.id for document in third] == ids(tools, k=3)
        assert isinstance(second, UsageError)
        assert second.message == "the query is empty"


def parameters(function: Callable[..., Any]) -> set[str]:
    """The names of a function's parameters, without the object and what collects further ones."""
    several = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return {name for name, each in inspect.signature(function).parameters.items() if each.kind not in several} - {
        "self"
    }


FRAMEWORK = {"name", "tags", "metadata", "input", "inputs", "config", "query", "return_exceptions", "callback_manager",
             "verbose", "run_manager", "index", "vectorstore", "document_store", "query_str", "query_bundle",
             "str_or_query_bundle"}  # fmt: skip
"""Parameters that the framework itself applies, or that are the query or the index."""


def expect_obeyed(tools: WritableIndex, name: str, filters: Any, ask: Callable[[dict[str, Any]], list[str]]) -> None:
    """A parameter makes the answer what it says, or is refused by its name; `filters` are those with licence MIT."""
    one, mit = ids(tools, k=1), ids(tools, filters="license=MIT")
    effects = {"k": (1, one), "similarity_top_k": (1, one), "top_k": (1, one), "filter": (filters, mit),
               "filters": (filters, mit), "doc_ids": (["ants"], ids(tools, doc_ids="ants")),
               "search_kwargs": ({"k": 1, "filter": filters}, mit[:1])}  # fmt: skip
    value, wanted = effects.get(name, (object(), None))
    try:
        found = ask({name: value})
    except (TypeError, ValueError, UsageError) as error:
        found, refusal = None, str(error)
    assert found == wanted if found is not None else name in refusal, (name, found)


def test_every_parameter_of_the_interfaces_of_langchain_is_obeyed_or_refused(tools: WritableIndex) -> None:
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import ConfigurableField
    from langchain_core.vectorstores import InMemoryVectorStore, VectorStoreRetriever

    langchain, free = Places(tools).langchain, {"license": "MIT"}
    walked = {*BaseRetriever.model_fields, *VectorStoreRetriever.model_fields}
    searching = [name for name in dir(InMemoryVectorStore) if "search" in name or name == "as_retriever"]
    functions = [*vars(BaseRetriever).values(), *(getattr(InMemoryVectorStore, name) for name in searching)]
    walked |= {name for each in functions if inspect.isfunction(each) for name in parameters(each)}
    assert {"k", "filter", "search_kwargs", "search_type", "fetch_k", "lambda_mult"} <= walked
    for name in walked - FRAMEWORK - {"cls", "kwargs"}:
        expect_obeyed(tools, name, free, lambda choices: asked(langchain(index=tools, **choices)))
        expect_obeyed(tools, name, free, lambda choices: asked(langchain(index=tools), **choices))
        expect_obeyed(tools, name, free, lambda choices: asked(langchain(index=tools).bind(**choices)))
    batch = langchain(index=tools).batch([QUERY, QUERY], search_kwargs={"k": 1}, filter=free)
    assert [[document.id for document in documents] for documents in batch] == [ids(tools, k=1, filters=free)] * 2
    retriever = langchain(index=tools, filter=free)
    assert asked(retriever, verbose=True, filter=None) == ids(tools, filters="license=MIT")
    with pytest.raises(UsageError, match="filter"):
        asked(langchain(index=tools), filter=lambda document: True)
    with pytest.raises(UsageError, match="`filters` and `filter`"):
        asked(retriever, filters={"license": "Apache-2.0"})
    with pytest.raises(UsageError, match="`filter` is given twice"):
        asked(langchain(index=tools, filter=free, search_kwargs={"filter": {"license": "Apache-2.0"}}))
    with pytest.raises(UsageError, match="search_kwargs"):
        asked(retriever, search_kwargs=3)
    configurable = retriever.configurable_fields(search_kwargs=ConfigurableField(id="search"))
    found = configurable.invoke(QUERY, config={"configurable": {"search": {"k": 1}}})
    assert [document.id for document in found] == ids(tools, k=1, filters=free)


def test_every_parameter_of_the_interfaces_of_llamaindex_is_obeyed_or_refused(tools: WritableIndex) -> None:
    from llama_index.core.indices.vector_store.retrievers import VectorIndexRetriever
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import QueryBundle
    from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
    from llama_index.core.vector_stores.types import VectorStoreQuery

    llamaindex = Places(tools).llamaindex
    walked = parameters(BaseRetriever.__init__) | parameters(VectorIndexRetriever.__init__)
    walked |= {field.name for field in dataclasses.fields(VectorStoreQuery)}
    assert {"filters", "similarity_top_k", "doc_ids", "node_ids", "alpha", "objects"} <= walked
    mit = MetadataFilters(filters=[MetadataFilter(key="license", value="MIT")])
    for name in walked - FRAMEWORK:
        expect_obeyed(tools, name, mit, lambda choices: asked(llamaindex(tools, **choices)))
    with pytest.raises(UsageError, match="`top_k` is given twice"):
        llamaindex(tools, similarity_top_k=1, top_k=2)
    for part in dataclasses.fields(QueryBundle):
        if part.name not in FRAMEWORK:
            with pytest.raises(UsageError, match=part.name):
                llamaindex(tools).retrieve(QueryBundle(QUERY, **{part.name: ["x"]}))


def test_every_parameter_of_the_interfaces_of_haystack_is_obeyed_or_refused(tools: WritableIndex) -> None:
    from haystack.components.retrievers.in_memory import InMemoryBM25Retriever, InMemoryEmbeddingRetriever

    haystack = Places(tools).haystack
    mit = {"field": "meta.license", "operator": "==", "value": "MIT"}
    for theirs in (InMemoryBM25Retriever, InMemoryEmbeddingRetriever):
        walked = (parameters(theirs.__init__) | parameters(theirs.run)) - FRAMEWORK
        assert {"filters", "top_k", "filter_policy", "scale_score"} <= walked
        for name in walked:
            expect_obeyed(tools, name, mit, lambda choices: asked(haystack(tools, **choices)))
            expect_obeyed(tools, name, mit, lambda choices: asked(haystack(tools), **choices))
    both = haystack(tools, filters=mit, choices={"filters": "group=microscopy"})
    assert asked(both) == ids(tools, filters=["license=MIT", "group=microscopy"])
    with pytest.raises(UsageError, match="`top_k` is given twice"):
        asked(haystack(tools, choices={"top_k": 3}), top_k=2)
    with pytest.raises(UsageError, match="`k` and `top_k`"):
        asked(haystack(tools, top_k=2, choices={"k": 3}))


# ------------------------------------------------------------------------------------- filters of frameworks

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


def found_by(retriever: Any, **choices: Any) -> list[str]:
    """The records that a retriever finds, in the order of their ids."""
    return sorted(each.removesuffix("#0") for each in asked(retriever, "kettle", **choices))


def test_filters_of_haystack_mean_what_they_mean_there() -> None:
    from haystack import Document
    from haystack.utils.filters import document_matches_filter

    retriever = Places(retrieve.build(RECORDS)).haystack(top_k=50, choices={"mode": "bm25"})
    documents = [Document(id=each["id"], meta={key: each[key] for key in ("shape", "n") if key in each})
                 for each in RECORDS]  # fmt: skip

    @given(FILTERS)
    @settings(max_examples=100)
    def check(filters: dict[str, Any]) -> None:
        passing = [each.id for each in documents if document_matches_filter(filters, each)]
        assert found_by(retriever, filters=filters) == sorted(passing)

    check()


def test_filters_of_llamaindex_mean_what_they_mean_there() -> None:
    from llama_index.core.vector_stores import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters
    from llama_index.core.vector_stores.utils import build_metadata_filter_fn

    index = retrieve.build([{**record, "tags": ["old", record.get("shape", "plain")]} for record in RECORDS])
    llamaindex = Places(index).llamaindex
    metadata = {each["id"]: {**each, "tags": ["old", each.get("shape", "plain")]} for each in RECORDS}
    shapes, numbers = st.sampled_from(["x", "y", "other"]), st.sampled_from([1, 2, 3])
    several = {FilterOperator.IN, FilterOperator.NIN, FilterOperator.ANY, FilterOperator.ALL}
    lists = {FilterOperator.ANY, FilterOperator.ALL, FilterOperator.CONTAINS}
    compared = {FilterOperator.GT, FilterOperator.GTE, FilterOperator.LT, FilterOperator.LTE}

    @st.composite
    def filters(draw: st.DrawFn) -> MetadataFilter:
        operator = draw(st.sampled_from([*FilterOperator]))
        value = draw(numbers if operator in compared else shapes)
        value = draw(st.lists(shapes, min_size=1, max_size=2)) if operator in several else value
        value = None if operator == FilterOperator.IS_EMPTY else value
        return MetadataFilter(key="n" if operator in compared else "tags" if operator in lists else "shape",
                              value=value, operator=operator)  # fmt: skip

    def passes(given: MetadataFilters | MetadataFilter, name: str) -> bool:
        if isinstance(given, MetadataFilter):
            return build_metadata_filter_fn(metadata.__getitem__, MetadataFilters(filters=[given]))(name)
        each = [passes(part, name) for part in given.filters]
        if given.condition == FilterCondition.NOT:
            return not any(each)
        return any(each) if given.condition == FilterCondition.OR else all(each)

    trees = st.recursive(filters(), lambda inner: st.builds(
        lambda parts, condition: MetadataFilters(filters=parts, condition=condition),
        st.lists(inner, min_size=1, max_size=3), st.sampled_from([None, *FilterCondition])), max_leaves=5)  # fmt: skip

    @given(trees.filter(lambda given: isinstance(given, MetadataFilters)))
    @settings(max_examples=100)
    def check(given: MetadataFilters) -> None:
        retriever = llamaindex(index, filters=given, similarity_top_k=50, mode="bm25")
        assert found_by(retriever) == sorted(name for name in metadata if passes(given, name))

    check()
    assert len(found_by(llamaindex(index, filters=MetadataFilters(filters=[]), k=50))) == len(RECORDS)


def test_a_filter_with_or_stays_within_its_tenant_and_ids() -> None:
    records = [{**record, "tenant": "acme" if record["id"] < "y" else "beta"} for record in RECORDS]
    records.append({"id": "secret", "name": "Kettle", "tenant": "beta", "hidden": "x"})
    index = retrieve.build(records)
    either = {"operator": "OR", "conditions": [{"field": "n", "operator": "==", "value": n} for n in (1, 2)]}
    choices = {"tenant": "acme", "mode": "bm25"}
    assert found_by(Places(index).haystack(index, choices=choices), filters=either) == ["1", "2", "x1", "x2"]
    chosen = Places(index).haystack(index, choices={**choices, "doc_ids": ["x1", "x3", "y1", 2]})
    assert found_by(chosen, filters=either) == ["2", "x1"]
    other = {"operator": "NOT", "conditions": [either, {"field": "hidden", "operator": "==", "value": "x"}]}
    with pytest.raises(UsageError, match="no record has a field 'hidden'"):
        found_by(Places(index).haystack(index, choices=choices), filters=other)


@pytest.mark.parametrize(
    ("filters", "words"),
    [
        ({"license": "MIT"}, "a filter is a comparison or AND, OR or NOT"),
        ("shape=x", "a filter is a comparison or AND, OR or NOT"),
        ({"operator": "OR", "conditions": []}, "a filter is a comparison or AND, OR or NOT"),
        ({"operator": "XOR", "conditions": [{}]}, "a filter is a comparison or AND, OR or NOT"),
        ({"field": "n", "operator": "like", "value": "x"}, "has the operator 'like'"),
        ({"field": "n", "operator": "in", "value": "x"}, "has the operator 'in' with 'x'"),
        ({"field": "n", "operator": ">", "value": None}, "must be a string, a number"),
        ({"field": "shape", "operator": "text_match", "value": "a*"}, "cannot match 'a*'"),
        ({"field": "shape", "operator": "text_match", "value": "a, b"}, "cannot match 'a, b'"),
        ({"operator": "NOT", "conditions": [{"field": "section", "operator": "==", "value": "x"}]}, "chooses chunks"),
    ],
)
def test_a_filter_that_is_none_is_refused_with_its_words(filters: Any, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        asked(Places(retrieve.build(RECORDS[:2])).made[2], filters=filters)
    assert words in caught.value.message
