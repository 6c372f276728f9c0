"""The encoder behind an embeddings endpoint."""

import base64
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from models.remote.servers import Api, Asked, embedder, vector

from retrieve_cli.contracts import ModelCard
from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.frozen import replace
from retrieve_cli.models.remote.client import ServerFailed
from retrieve_cli.models.remote.embeddings import PieceTokenizer, RemoteEncoder
from retrieve_cli.models.runtimes.tokenizer import ModelTokenizer

TEXTS = ["segment lungs", "Grüße 細胞 \U0001f600", "x", "\ud800 alone", "a\x00b\nc"]


@pytest.fixture
def encoder(api: Api, connect):
    """Makes encoders of a server that knows the model `qwen` with 8 dimensions."""
    api.respond = embedder()

    def make(**settings: Any) -> RemoteEncoder:
        ours = {"api_key_env", "concurrency", "retries"}
        client = connect(**{name: settings.pop(name) for name in ours & settings.keys()})
        return RemoteEncoder(client, **{"model": "qwen", "max_tokens": 100, **settings})

    return make


def unit(text: str) -> np.ndarray:
    wide = np.array(vector(text))
    return (wide / np.linalg.norm(wide)).astype(np.float32)


# -------------------------------------------------------------------------------------------- vectors


@pytest.mark.parametrize("batch_size", [1, 2, 3, 100])
@pytest.mark.parametrize("concurrency", [1, 4])
def test_each_text_has_its_vector_whatever_the_batches(encoder, batch_size: int, concurrency: int) -> None:
    texts = [f"text {number}" for number in range(13)]
    found = encoder(batch_size=batch_size, concurrency=concurrency).encode_passages(texts)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [unit(text) for text in texts], rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-6)


def test_any_text_is_sent_as_it_is_and_a_lone_surrogate_as_another_character(api: Api, encoder) -> None:
    found = encoder().encode_passages(TEXTS)
    assert api.last.json["input"] == [text.replace("\ud800", "\ufffd") for text in TEXTS]
    np.testing.assert_allclose(found[1], unit(TEXTS[1]), rtol=1e-6)


def test_queries_and_passages_have_their_prefixes(api: Api, encoder) -> None:
    made = encoder(query_prefix="Instruct: find tools\nQuery: ", passage_prefix="doc: ")
    made.encode_queries(["lungs"])
    assert api.last.json["input"] == ["Instruct: find tools\nQuery: lungs"]
    made.encode_passages(["lungs"])
    assert api.last.json["input"] == ["doc: lungs"]


def test_dimensions_are_sent_where_they_are_set(api: Api, encoder) -> None:
    encoder().encode_queries(["x"])
    assert api.last.path == "/v1/embeddings"
    assert api.last.json == {"model": "qwen", "input": ["x"], "encoding_format": "float"}
    api.respond = embedder(dim=4)
    assert encoder(dimensions=4).encode_queries(["x"]).shape == (1, 4)
    assert api.last.json["dimensions"] == 4


def test_no_text_is_no_vector_and_a_blank_one_is_zero_and_not_sent(api: Api, encoder) -> None:
    made = encoder()
    assert made.encode_passages([]).shape == (0, 8)
    found = made.encode_passages(["", "a", " \n"])
    assert api.last.json["input"] == ["a"]
    assert not found[[0, 2]].any()
    np.testing.assert_allclose(found[1], unit("a"), rtol=1e-6)


def test_an_answer_may_be_in_base64_and_in_any_order(api: Api, encoder) -> None:
    def respond(asked: Asked) -> Any:
        data = [
            {"index": at, "embedding": base64.b64encode(np.array(vector(text), "<f4").tobytes()).decode()}
            for at, text in enumerate(asked.json["input"])
        ]
        return {"data": data[::-1], "model": "qwen"}

    api.respond = respond
    np.testing.assert_allclose(encoder().encode_passages(["a", "b", "c"]), [unit(text) for text in "abc"], rtol=1e-6)


# ------------------------------------------------------------------------------------------- the card


def test_the_card_says_what_the_server_says(api: Api, encoder) -> None:
    api.respond = embedder(model="Qwen/Qwen3-Embedding-8B", dim=16)
    made = encoder(query_prefix="q: ", passage_prefix="p: ")
    card = made.card
    assert card == ModelCard(
        family="remote", name="Qwen/Qwen3-Embedding-8B", revision=card.revision, dim=16, max_tokens=100,
        query_prefix="q: ", passage_prefix="p: ", pooling="none",
    )  # fmt: skip
    assert len(card.revision) == 40
    made.encode_queries(["x"])
    assert len(api.asked) == 2


def test_the_revision_follows_the_model_and_the_dimension_and_nothing_else(api: Api, encoder) -> None:
    revision = encoder().card.revision
    assert encoder(batch_size=1, max_tokens=7, normalize=False).card.revision == revision
    api.respond = embedder(model="other")
    assert encoder().card.revision != revision
    api.respond = embedder(dim=4)
    assert encoder().card.revision != revision


@pytest.mark.parametrize("named", [None, "", "  ", 3])
def test_a_server_that_does_not_name_its_model_has_the_one_that_was_asked_for(api: Api, encoder, named: Any) -> None:
    api.respond = embedder(model=named)
    assert encoder().card.name == "qwen"


def test_with_the_card_of_an_index_one_query_is_one_request(api: Api, encoder) -> None:
    card = replace(encoder(query_prefix="q: ").card, max_tokens=3)
    api.asked.clear()
    made = encoder(expected=card, query_prefix="another: ")
    assert made.card is card
    assert made.encode_queries(["lungs"]).shape == (1, 8)
    assert [asked.json["input"] for asked in api.asked] == [["q"]]
    assert made.truncated == 1


@pytest.mark.parametrize("other", [{"model": "e5"}, {"dim": 4}])
def test_another_model_than_the_indexs_is_refused_with_both_names(api: Api, encoder, other: dict[str, Any]) -> None:
    card = encoder().card
    api.respond = embedder(**other)
    with pytest.raises(IndexCorrupt) as caught:
        encoder(expected=card).encode_queries(["x"])
    assert "qwen (8 dimensions)" in caught.value.message
    assert f"{other.get('model', 'qwen')} ({other.get('dim', 8)} dimensions)" in caught.value.message
    assert "retrieve build" in caught.value.hint


def test_a_server_that_becomes_another_model_is_refused(api: Api, encoder) -> None:
    made = encoder()
    made.encode_queries(["x"])
    api.respond = embedder(model="e5", dim=4)
    with pytest.raises(ServerFailed, match=r"qwen \(8 dimensions\) before, and now as e5 \(4 dimensions\)"):
        made.encode_queries(["x"])


# ---------------------------------------------------------------------------------------- bad answers


def test_a_text_that_the_server_finds_too_long_says_what_to_do(api: Api, encoder) -> None:
    made = encoder()
    _ = made.card
    api.say({"error": {"message": "maximum context length is 512"}}, status=400)
    with pytest.raises(ServerFailed, match="maximum context length is 512") as caught:
        made.encode_queries(["x"])
    assert "max_tokens" in caught.value.hint


# ----------------------------------------------------------------------------------------- tokens


def test_a_text_that_is_too_long_loses_its_end_and_is_counted(api: Api, encoder) -> None:
    made = encoder(max_tokens=12)
    made.encode_passages(["one two three " * 50, "short"])
    assert made.truncated == 1
    cut, short = api.last.json["input"]
    assert short == "short"
    assert cut
    assert ("one two three " * 50).startswith(cut)
    assert PieceTokenizer().count(cut) + 2 <= 12


def test_the_models_own_tokenizer_counts_where_it_is_named(encoder, default_model) -> None:
    folder = default_model.transformer
    for place in (folder, folder / "tokenizer.json"):
        made = encoder(tokenizer=place)
        assert isinstance(made.tokenizer, ModelTokenizer)
        assert made.tokenizer.count("word") == 1
    made = encoder(tokenizer=folder, max_tokens=5)
    made.encode_passages(["one two three four five six", "one two three"])
    assert made.truncated == 1


@given(st.text(max_size=200))
def test_pieces_lie_in_order_within_the_text_and_leave_out_nothing_that_is_seen(text: str) -> None:
    pieces = PieceTokenizer()
    spans = pieces.spans(text)
    assert pieces.count(text) == len(spans) <= len(text.encode("utf-8", "replace"))
    assert list(spans) == sorted(spans)
    assert all(0 <= start < end <= len(text) for start, end in spans)
    covered = {place for start, end in spans for place in range(start, end)}
    assert all(text[place].isspace() for place in set(range(len(text))) - covered)
