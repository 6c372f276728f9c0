"""MCP: the tool `search`, asked by the SDK's client in this process."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, strategies as st
from mcp_clients import called, connected, text_of
from servers import built

from retrieve_cli.assemble import tokenizers
from retrieve_cli.assemble.tokenizers import most_tokens
from retrieve_cli.models.runtimes.locate import DEFAULT_MODEL, locate
from retrieve_cli.models.runtimes.tokenizer import ModelTokenizer
from retrieve_cli.server.mcp.outcomes import BOTH, CLIENTS, CONTENT, PLAIN, STRUCTURED, channels_of

_MODERN, _OLD = "2026-07-28", "2025-03-26"
_WORDS = "segments registers counts scans volumes cells lungs brain tissue images slices masks labels".split()


count = most_tokens()
"""The tokens of a text as the server counts them for an index without a model's tokenizer."""


_SCRIPTS = st.text(st.characters(codec="utf-8") | st.sampled_from('ab _{}",ä語😀ไЯह'), max_size=60)


_TOKENIZER = ModelTokenizer.read(locate(DEFAULT_MODEL).path / "tokenizer.json", lowercase=True)


@given(_SCRIPTS)
def test_no_tokenizer_makes_more_tokens_of_a_text_than_the_bound(text: str) -> None:
    bound = len(text.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizers, "_default", lambda: None)
        assert most_tokens()(text) == bound
    assert _TOKENIZER.count(text) <= count(text) <= bound


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """An index of forty tools with long descriptions."""
    tools = [
        {
            "id": f"tool/{number} ä",
            "name": f"Tool {number}",
            "description": " ".join(
                f"It {_WORDS[(number + n) % len(_WORDS)]} lungs in step {n} of {number}." for n in range(40)
            ),
            "url": f"https://example.org/{number}",
            "license": ("MIT", "Apache-2.0")[number % 2],
        }
        for number in range(40)
    ]
    return built(tmp_path, tools)


@pytest.mark.anyio
async def test_each_result_has_a_link_that_can_be_read(many: Path) -> None:
    async with connected(many) as client:
        answer = await client.call_tool("search", {"query": "lungs", "limit": 3})
        links = [block for block in answer.content if block.type == "resource_link"]
        results = answer.structured_content["results"]
        assert len(links) == len(results) == 3
        generation = answer.structured_content["generation"]
        for link, result in zip(links, results, strict=True):
            assert link.uri.startswith(f"retrieve://g/{generation}/chunk/tool%2F")
            assert not {" ", "#"} & set(link.uri)
            contents = (await client.read_resource(link.uri)).contents
            assert contents[0].text.startswith(result["title"])


@pytest.mark.parametrize("texts", ["content", "structured"])
@pytest.mark.parametrize("most", [150, 1000])
def test_an_answer_keeps_within_the_tokens_of_the_caller(many: Path, texts: str, most: int) -> None:
    answer = called(many, "search", {"query": "lungs", "max_tokens": most}, texts=texts)
    assert not answer.is_error, text_of(answer)
    structured = json.dumps(answer.structured_content, ensure_ascii=False, separators=(",", ":"))
    assert count(text_of(answer) if texts == "content" else structured) <= most


def test_every_result_is_named_before_the_text_of_any_is_long(many: Path) -> None:
    answer = called(many, "search", {"query": "lungs", "max_tokens": 600}, texts="both")
    texts = [result["text"] for result in answer.structured_content["results"]]
    assert len(texts) == 10
    assert all(texts)
    assert max(map(len, texts)) < 3 * min(map(len, texts))


def test_without_a_budget_an_answer_has_at_most_900_tokens(many: Path) -> None:
    assert 700 < count(text_of(called(many, "search", {"query": "lungs"}, texts="content"))) <= 900
    both = called(many, "search", {"query": "lungs"}, texts="both").structured_content
    assert 700 < count(json.dumps(both, ensure_ascii=False, separators=(",", ":"))) <= 900


def test_the_cursor_leads_through_all_results_and_repeats_none(many: Path) -> None:
    async def read() -> list[str]:
        async with connected(many) as client:
            ids: list[str] = []
            given: dict[str, Any] = {"query": "lungs", "limit": 7, "max_tokens": 400}
            while len(ids) < 100:
                answer = (await client.call_tool("search", given)).structured_content
                ids += [result["id"] for result in answer["results"]]
                if "next_cursor" not in answer:
                    break
                given["cursor"] = answer["next_cursor"]
            return ids

    ids = anyio.run(read)
    assert len(ids) == len(set(ids)) == 40


def test_a_cursor_goes_with_its_arguments_and_its_generation(many: Path) -> None:
    first = called(many, "search", {"query": "lungs", "limit": 2}).structured_content["next_cursor"]
    for cursor, said in (
        (first, "belongs to other arguments"),
        ("nonsense", "is not a cursor"),
        (7, "is not a cursor"),
        ("a.b.c", "is not a cursor"),
    ):
        answer = called(many, "search", {"query": "brain", "limit": 2, "cursor": cursor})
        assert answer.is_error
        assert said in text_of(answer)
    gone = first.replace(first.partition(".")[0], "000000000000")
    answer = called(many, "search", {"query": "lungs", "limit": 2, "cursor": gone})
    assert "the index has changed since the cursor was made; search again without the cursor" in text_of(answer)


def test_errors_name_what_the_model_may_have_meant(index: Path) -> None:
    for arguments, said in (
        ({"query": "lungs", "filters": ["modality2=CT"]}, "no record has a field 'modality2'"),
        ({"query": "lungs", "filters": ["licens=MIT"]}, "did you mean `license`?"),
        ({"qury": "lungs"}, "did you mean `query`?"),
        ({}, "has no query"),
        ({"query": "lungs", "max_tokens": 3}, "max_tokens is a whole number from 50"),
        ({"query": "lungs", "max_tokens": "many"}, "max_tokens is a whole number from 50"),
    ):
        answer = called(index, "search", arguments)
        assert answer.is_error, arguments
        assert said in text_of(answer), arguments
        assert answer.structured_content is None


def test_texts_go_into_the_channel_that_the_client_passes_on() -> None:
    assert channels_of("claude-code", _MODERN) == STRUCTURED
    assert channels_of("Visual Studio Code - Insiders", _MODERN) == STRUCTURED
    assert channels_of("claude-ai", _MODERN) == CONTENT
    assert channels_of("somebody", _MODERN) == BOTH
    assert channels_of("claude-code", _MODERN, "content") == CONTENT
    assert channels_of("claude-code", _OLD) == PLAIN


def test_a_client_that_passes_on_both_channels_pays_for_the_texts_once(many: Path) -> None:
    answer = called(many, "search", {"query": "lungs"}, name="github-copilot-cli")
    structured = count(json.dumps(answer.structured_content, ensure_ascii=False, separators=(",", ":")))
    content = sum(count(json.dumps(block.model_dump(exclude_none=True))) for block in answer.content)
    assert structured > 700
    assert structured + content <= 1.1 * structured


def test_a_connector_of_chatgpt_finds_the_results_as_json_in_the_content(index: Path) -> None:
    assert any(channels.mirrored for channels in CLIENTS.values())
    for tool, arguments in (("search", {"query": "cells"}), ("fetch", {"id": "cells"})):
        answer = called(index, tool, arguments, name="openai-mcp")
        assert len(answer.content) == 1
        assert json.loads(text_of(answer)) == answer.structured_content


@pytest.mark.anyio
async def test_nearly_the_same_passages_are_one_result_with_the_ids_of_the_others(tmp_path: Path) -> None:
    text = "Segments the left and the right lung and all of their lobes in volumes of computed tomography"
    others = [{"id": f"other{n}", "name": f"Other {n}", "description": f"Lung {n} {_WORDS[n]}"} for n in range(3)]
    copies = [{"id": f"copy{n}", "name": f"Copy {n}", "description": f"{text} {n}."} for n in range(4)]
    artifacts = built(tmp_path, [*copies, *others])
    async with connected(artifacts) as client:
        ids: list[str] = []
        arguments: dict[str, Any] = {"query": "segments lung lobes", "limit": 3}
        for _ in range(5):
            answer = (await client.call_tool("search", arguments)).structured_content
            for result in answer["results"]:
                ids += [result["id"], *result.get("also", [])]
            if "next_cursor" not in answer:
                break
            arguments["cursor"] = answer["next_cursor"]
        assert sorted(ids) == sorted(f"{each['id']}#0" for each in [*copies, *others])
        whole = await client.call_tool("search", {"query": "segments lung lobes"})
        first = next(result for result in whole.structured_content["results"] if "copy" in result["id"])
        assert {first["id"], *first["also"]} == {f"copy{n}#0" for n in range(4)}
        assert f"also: {', '.join(first['also'])}" in text_of(whole)
        assert len(whole.structured_content["results"]) == 4
