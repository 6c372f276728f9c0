"""Records read by a chat model in batches: every request fits the context, nothing is lost, and it always ends."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from models.remote.servers import Api, Asked

from retrieve_cli.errors import ModelFailed
from retrieve_cli.models.remote.chat import ListwiseSelector
from retrieve_cli.models.remote.embeddings import PieceTokenizer
from retrieve_cli.models.remote.reading import CatalogReader, answer_tokens

CONTEXT = 4096


def shown(asked: Asked) -> list[dict[str, Any]]:
    content = asked.json["messages"][1]["content"]
    lines = content.partition("<candidates>\n")[2].partition("\n</candidates>")[0].splitlines()
    return [json.loads(line) for line in lines]


def greedy(asked: Asked) -> dict[str, Any]:
    """Picks as many as the schema allows, the last ones first."""
    most = asked.json["response_format"]["json_schema"]["schema"]["properties"]["picked"]["maxItems"]
    numbers = [each["number"] for each in shown(asked)][::-1][:most]
    return {"choices": [{"message": {"content": json.dumps({"picked": numbers})}, "finish_reason": "stop"}]}


@pytest.fixture
def reader(api: Api, connect):
    """Makes readers of texts, by a model that takes in 4096 tokens."""
    api.respond = greedy

    def make(texts: list[str]) -> CatalogReader:
        selector = ListwiseSelector(connect(), model="qwen", max_tokens=answer_tokens(CONTEXT))
        return CatalogReader(selector, texts.__getitem__, context_tokens=CONTEXT, concurrency=3)

    return make


@given(
    st.lists(
        st.sampled_from(["lungs " * 60, "肺" * 400, "x", "", "<>" * 300, "\u2028" * 400, "Qq7" * 900]), max_size=60
    ),
    st.sampled_from(["lungs", "Wie viele Zellen? " * 2000, "肺" * 5000, "<" * 9000]),
    st.integers(1, 500),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
def test_every_request_fits_and_every_record_is_read(api: Api, reader, texts: list[str], query: str, most: int) -> None:
    api.asked.clear()
    found = reader(texts).choose(query, range(len(texts)), most=most)
    assert len(found) == len(set(found)) <= most
    assert bool(found) == bool(texts)
    count = PieceTokenizer().count
    for asked in api.asked:
        taken = sum(count(message["content"]) for message in asked.json["messages"])
        assert taken + 2 * asked.json["max_tokens"] <= CONTEXT
    first_round = sum(len(shown(asked)) for asked in api.asked)
    assert first_round >= len(texts)
    assert len(api.asked) <= 2 * max(1, len(texts))


def test_the_best_of_several_batches_are_compared_in_one_more_round(api: Api, reader) -> None:
    texts = [f"{at} {'lungs ' * 60}" for at in range(120)]
    found = reader(texts).choose("lungs", range(120), most=4)
    assert len(api.asked) > 2
    last = [int(each["text"].split()[0]) for each in shown(api.last)]
    assert found == last[::-1][:4]


def test_one_batch_without_an_answer_is_a_failure_of_all(api: Api, reader) -> None:
    texts = [f"{at} {'lungs ' * 60}" for at in range(120)]

    def respond(asked: Asked) -> dict[str, Any]:
        first = shown(asked)[0]["text"].startswith("0 ")
        return {"choices": [{"message": {"content": "?"}}]} if first else greedy(asked)

    api.respond = respond
    with pytest.raises(ModelFailed, match="no usable answer"):
        reader(texts).choose("lungs", range(120), most=4)


def test_batches_of_which_none_is_dropped_end_without_another_round(api: Api, reader) -> None:
    texts = ["肺" * 3000] * 2
    found = reader(texts).choose("lungs", [0, 1], most=9)
    assert sorted(found) == [0, 1]
    assert len(api.asked) <= 3
