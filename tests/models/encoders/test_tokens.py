"""The tokenizers' promises: spans of the whole text, counts that agree with them, ids that fit the model."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from retrieve_cli.contracts import Tokenizer
from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.models.encoders.hashed import WordTokenizer
from retrieve_cli.models.runtimes.model_folder import ModelFolder
from retrieve_cli.models.runtimes.tokenizer import ModelTokenizer, readable


@pytest.fixture(scope="module")
def tokenizer(default_model: ModelFolder) -> ModelTokenizer:
    return ModelTokenizer.read(default_model.path / "tokenizer.json")


def test_whole_text_is_counted_whatever_the_file_says_about_truncation(tokenizer: ModelTokenizer) -> None:
    assert tokenizer.count("word " * 1000) == 1000
    assert tokenizer.count("") == 0
    assert tokenizer.special_tokens == 2


@given(text=st.text(st.characters(), max_size=80))
def test_spans_lie_in_order_within_the_text_and_agree_with_the_count(tokenizer: ModelTokenizer, text: str) -> None:
    for promised in (tokenizer, WordTokenizer()):
        kept: Tokenizer = promised
        spans = kept.spans(text)
        assert len(spans) == kept.count(text)
        assert all(0 <= start <= end <= len(text) for start, end in spans)
        assert sorted(spans) == list(spans)


@given(text=st.text(st.characters(), max_size=80), limit=st.integers(2, 20))
def test_ids_are_as_many_as_counted_up_to_the_limit(tokenizer: ModelTokenizer, text: str, limit: int) -> None:
    tokenized = tokenizer.ids([text], max_tokens=limit)
    assert len(tokenized.ids[0]) == min(limit, tokenizer.count(text) + 2)
    assert tokenized.truncated == (tokenizer.count(text) + 2 > limit)


def test_text_is_lowercased_where_the_model_says_so(tiny_roberta: ModelFolder) -> None:
    path = tiny_roberta.path / "tokenizer.json"
    lower = ModelTokenizer.read(path, lowercase=True)
    assert lower.ids(["CT"], max_tokens=9) == ModelTokenizer.read(path).ids(["ct"], max_tokens=9)


def test_lone_surrogates_are_replaced_one_for_one() -> None:
    assert readable("a\ud800b\udfff\U0001f600") == "a\ufffdb\ufffd\U0001f600"


def test_missing_tokenizer_points_to_the_torch_encoder(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        ModelTokenizer.read(tmp_path / "tokenizer.json")
    assert "encoder.kind: torch" in caught.value.hint


def test_broken_tokenizer_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(UsageError, match=r"tokenizer\.json"):
        ModelTokenizer.read(tmp_path / "tokenizer.json").count("a")
