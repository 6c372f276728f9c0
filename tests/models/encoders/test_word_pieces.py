"""The quick tokenizer of short ASCII queries gives the ids of the `tokenizers` library, or leaves the text to it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from retrieve_cli.models.runtimes.model_folder import ModelFolder
from retrieve_cli.models.runtimes.tokenizer import ModelTokenizer, WordPieces, parse, read_word_pieces

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "lung", "##s", "CT", "ct", "in", "##in", "a", "##a", "-", "!", "aa", "s")
TEMPLATE = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2, 3], "tokens": ["[CLS]", "[SEP]"]}},
}
BERT = {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}
ASCII = st.text(st.characters(min_codepoint=0, max_codepoint=127), max_size=60)
PIECES = st.lists(st.sampled_from([*"aAinsctCT -!\t", "lung", "lungs", "ctin", "[SEP]", "Lung s", "ab"])).map("".join)


def token(content: str, *, normalized: bool, at: int) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "special": not normalized}
    return {"id": at, "content": content, "normalized": normalized, **flags}


def written(folder: Path, **changes: Any) -> Path:
    """A tokenizer of BERT with a vocabulary of a few words, some of its parts changed."""
    normalizer = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True}
    value: dict[str, Any] = {
        "version": "1.0",
        "added_tokens": [token("[SEP]", normalized=False, at=3)],
        "normalizer": {**normalizer, "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": TEMPLATE,
        "decoder": None,
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 12,
            "vocab": {word: at for at, word in enumerate(WORDS)},
        },
    }
    for name, change in changes.items():
        value[name] = {**value[name], **change} if isinstance(value[name], dict) else change
    (folder / "tokenizer.json").write_text(json.dumps(value))
    return folder / "tokenizer.json"


VARIANTS: dict[str, dict[str, Any]] = {
    "template": {},
    "bert": {"post_processor": BERT},
    "cased": {"normalizer": {"lowercase": False, "strip_accents": True, "clean_text": False}},
    "long": {"model": {"max_input_chars_per_word": 3, "unk_token": "a", "continuing_subword_prefix": "s"}},
    "added": {"added_tokens": [token("Lung S", normalized=True, at=16), token("ab", normalized=False, at=17)]},
}


@pytest.fixture(scope="module", params=[(name, lower) for name in VARIANTS for lower in (False, True)])
def small(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bool]:
    name, lower = request.param
    return written(tmp_path_factory.mktemp(name), **VARIANTS[name]), lower


def library(path: Path, *, lowercase: bool = False) -> ModelTokenizer:
    """The tokenizer that has no word pieces of its own."""
    return ModelTokenizer(lambda: parse(path), lowercase=lowercase)


@settings(max_examples=200)
@given(text=ASCII | PIECES, limit=st.integers(2, 20))
def test_small_vocabularies_give_the_ids_of_the_library(small: tuple[Path, bool], text: str, limit: int) -> None:
    path, lowercase = small
    quick = ModelTokenizer.read(path, lowercase=lowercase)
    assert read_word_pieces(path, lowercase=lowercase) is not None
    full = library(path, lowercase=lowercase)
    assert quick.special_tokens == full.special_tokens
    assert quick.special_ids == full.special_ids
    assert quick.ids([text], max_tokens=limit) == full.ids([text], max_tokens=limit)


@pytest.fixture(scope="module")
def both(default_model: ModelFolder) -> tuple[WordPieces, ModelTokenizer, list[str]]:
    path = default_model.path / "tokenizer.json"
    pieces = read_word_pieces(path, lowercase=False)
    assert pieces is not None
    words = [word.removeprefix("##") for word in pieces.vocabulary if word.isascii()]
    return pieces, library(path), words


Both = tuple[WordPieces, ModelTokenizer, list[str]]


@settings(max_examples=500)
@given(text=st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=200))
def test_any_printable_ascii_has_the_ids_that_the_library_gives(both: Both, text: str) -> None:
    pieces, full, _ = both
    found = pieces.ids(text)
    if found is not None:
        assert [*pieces.before, *found, *pieces.after] == full.ids([text], max_tokens=512).ids[0]
    else:
        assert any(name in text.upper() for name in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"))


@pytest.mark.parametrize("text", ["Lüngen", "a\tb", "a\nb", "\x7f", "x" * 2001, "see [mask] there"])
def test_what_is_not_short_and_plain_is_left_to_the_library(both: Both, text: str) -> None:
    assert both[0].ids(text) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"normalizer": {"type": "Lowercase"}},
        {"normalizer": {"lowercase": "yes"}},
        {"pre_tokenizer": {"type": "Whitespace", "was": "BertPreTokenizer"}},
        {"model": {"type": "WordLevel"}},
        {"model": {"unk_token": "[none]"}},
        {"model": {"vocab": {"[UNK]": "1"}}},
        {"model": {"vocab": {"[UNK]": -1}}},
        {"post_processor": {"type": "RobertaProcessing"}},
        {"post_processor": {"single": [{"Sequence": {"id": "A", "type_id": 0}}] * 2}},
        {"post_processor": {"single": [{"Sequence": {"id": "B", "type_id": 0}}]}},
        {"post_processor": {"single": []}},
        {"added_tokens": [token("É", normalized=True, at=16)]},
        {"added_tokens": "none"},
        {"model": {"vocab": []}},
    ],
)
def test_other_tokenizers_are_left_to_the_library(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert read_word_pieces(written(tmp_path, **changes), lowercase=False) is None


def test_files_that_are_damaged_huge_or_absent_are_left_to_the_library(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    assert read_word_pieces(path, lowercase=False) is None
    name = '"BertPreTokenizer"'
    for content in ("{", name, f"[{name}]", "\ufeff{}", "[" * 100_000 + name):
        path.write_text(content)
        assert read_word_pieces(path, lowercase=False) is None
    with path.open("wb") as file:
        file.truncate(5 * 2**20)
    assert read_word_pieces(path, lowercase=False) is None


def test_a_short_query_does_not_load_the_library(default_model: ModelFolder) -> None:
    path = default_model.path / "tokenizer.json"
    code = (
        "import sys; from pathlib import Path; from retrieve_cli.models.runtimes.tokenizer import ModelTokenizer\n"
        "tokenizer = ModelTokenizer.read(Path(sys.argv[1])); tokenizer.special_ids\n"
        "print(tokenizer.ids(['segment lungs in CT'], max_tokens=9).ids, 'tokenizers' in sys.modules)\n"
        "print(tokenizer.count('lungs'), 'tokenizers' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[[101, 6903, 8948, 1999, 14931, 102]] False", "1 True"]
