"""What models are known to want in front of texts."""

import pytest

from retrieve_cli.models.runtimes.model_folder import FILE, by_name, of_model

INSTRUCTION = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
BGE = "Represent this sentence for searching relevant passages: "


@pytest.mark.parametrize(
    ("name", "query", "passage"),
    [
        ("Qwen/Qwen3-Embedding-8B", INSTRUCTION, ""),
        ("qwen3-embedding:0.6b", INSTRUCTION, ""),
        ("BAAI/bge-large-en-v1.5", BGE, ""),
        ("models--BAAI--bge-small-en-v1.5", BGE, ""),
        ("intfloat/e5-base-v2", "query: ", "passage: "),
        ("intfloat/multilingual-e5-large", "query: ", "passage: "),
        ("intfloat/multilingual-e5-large-instruct", f"{INSTRUCTION} ", ""),
        ("BAAI/bge-m3", "", ""),
        ("Qwen/Qwen3-Reranker-8B", "", ""),
        ("BAAI/bge-reranker-large", "", ""),
        ("sentence-transformers/all-MiniLM-L6-v2", "", ""),
        ("no-e5-base", "", ""),
        ("e5-based", "", ""),
    ],
)
def test_a_family_is_known_by_the_beginning_of_a_name(name: str, query: str, passage: str) -> None:
    assert by_name(name)[:2] == (query, passage)


def test_the_first_name_that_is_known_holds() -> None:
    assert by_name("embedder", "intfloat/e5-base").query == "query: "
    assert by_name("embedder", "other").said_by == ""


def test_a_models_own_files_come_before_its_family() -> None:
    own = {"query": "search_query: ", "document": ""}
    assert of_model(own, "e5-base") == ("search_query: ", "", FILE)
    empty = {"query": "", "document": ""}  # what sentence-transformers writes for a model without prompts
    assert of_model(empty, "e5-base")[:2] == ("query: ", "passage: ")
    assert of_model(["query"], "other")[:2] == ("", "")
    assert of_model({"query": 3}, "other")[:2] == ("", "")
