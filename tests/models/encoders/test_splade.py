"""The SPLADE encoder: sentence-transformers' own weights, queries without torch, pruning, and batches that fit."""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from splade_models import LIMIT, PIECES, save_masked, tokenizer

from retrieve_cli.contracts import TermWeights
from retrieve_cli.errors import UsageError
from retrieve_cli.models.encoders.splade_encoder import SpladeEncoder, _stretches
from retrieve_cli.models.encoders.splade_folder import read_splade
from retrieve_cli.models.encoders.splade_queries import Pruning
from retrieve_cli.models.runtimes import onnx_runner
from retrieve_cli.retrieval.retrievers.splade import RETRIEVER

RunPython = Callable[..., str]

TEXTS = [
    "",
    "segment lungs in CT",
    "nnU-Net: self-configuring deep learning for biomedical image segmentation \U0001f600 3D\u00b2",
    "\u7ec6\u80de\u5206\u5272 \u05e9\u05dc\u05d5\u05dd",
    "a\x00b\ttabs\nand\r\nlines   with   spaces  ",
    "[CLS] [SEP] <pad> are spelled out",
    "word " * 70,
    "the registration of brain volumes between subjects " * 60,
]
"""Empty, without a known character, longer than 64 tokens, longer than the models here take."""


def modules(path: Path, pooling: str = "max", activation: str = "relu") -> list[Any]:
    parts = importlib.import_module("sentence_transformers.sparse_encoder.modules")
    transformer = parts.Transformer(str(path), transformer_task="fill-mask")
    return [transformer, parts.SpladePooling(pooling, activation)]


def save_listed(path: Path, parts: Sequence[Any], **settings: Any) -> Path:
    package = importlib.import_module("sentence_transformers")
    package.SparseEncoder(modules=list(parts), device="cpu", **settings).save(str(path), create_model_card=False)
    return path


def static(weights: Any) -> Any:
    parts = importlib.import_module("sentence_transformers.sparse_encoder.modules")
    return parts.SparseStaticEmbedding(tokenizer=tokenizer(), weight=weights)


def router(queries: Sequence[Any], documents: Sequence[Any]) -> list[Any]:
    parts = importlib.import_module("sentence_transformers.sparse_encoder.modules")
    return [parts.Router.for_query_document(list(queries), list(documents))]


@pytest.fixture(scope="module")
def token_weights() -> Any:
    """A weight for each token, 0 for the padding and for one in four."""
    torch = importlib.import_module("torch")
    weights = torch.rand(len(tokenizer()), generator=torch.Generator().manual_seed(3)) * 5
    weights[::4] = 0
    return weights


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    importlib.import_module("transformers").utils.logging.disable_progress_bar()
    return save_masked(tmp_path_factory.mktemp("plain") / "model")


MAKERS: dict[str, Callable[[Path, Path, Any], Path]] = {
    "plain": lambda path, plain, weights: plain,
    "listed": lambda path, plain, weights: save_listed(path, modules(plain)),
    "sum": lambda path, plain, weights: save_listed(path, modules(plain, "sum")),
    "twice the logarithm": lambda path, plain, weights: save_listed(path, modules(plain, "max", "log1p_relu")),
    "inference-free": lambda path, plain, weights: save_listed(path, router([static(weights)], modules(plain))),
    "asymmetric": lambda path, plain, weights: save_listed(
        path, router(modules(save_masked(path.with_name("other"), seed=8)), modules(plain, "sum"))
    ),
    "prompts": lambda path, plain, weights: save_listed(
        path, modules(plain), prompts={"query": "find: ", "document": "a text: "}
    ),
    "limited": lambda path, plain, weights: save_listed(path, modules(plain), max_active_dims=7),
    "roberta": lambda path, plain, weights: save_masked(path, "Roberta"),
    "distilbert": lambda path, plain, weights: save_masked(path, "DistilBert"),
    "untied": lambda path, plain, weights: save_masked(path, tie_word_embeddings=False),
    "another family": lambda path, plain, weights: save_masked(path, "MPNet"),
}
"""How the folder of every layout and family is made, from a plain one and weights of tokens."""
LAYOUTS = pytest.mark.parametrize("layout", MAKERS)


class Layouts(dict[str, Path]):
    """Folders by layout, each made when it is first asked for."""

    def __init__(self, make: Callable[[str], Path]) -> None:
        self._make = make

    def __missing__(self, layout: str) -> Path:
        return self.setdefault(layout, self._make(layout))


@pytest.fixture(scope="module")
def layouts(tmp_path_factory: pytest.TempPathFactory, plain: Path, token_weights: Any) -> Layouts:
    root = tmp_path_factory.mktemp("layouts")
    return Layouts(lambda layout: MAKERS[layout](root / layout.replace(" ", "-"), plain, token_weights))


def encoder_of(path: Path, **settings: Any) -> SpladeEncoder:
    """An encoder on the CPU, which keeps its exports beside the model."""
    return SpladeEncoder(read_splade(path), **{"cache_dir": path.parent / "cache", "device": "cpu", **settings})


@pytest.fixture(scope="module")
def encoder(plain: Path) -> SpladeEncoder:
    return encoder_of(plain)


@pytest.fixture(scope="module")
def free(layouts: Layouts) -> SpladeEncoder:
    return encoder_of(layouts["inference-free"])


def peer(path: Path) -> Any:
    return importlib.import_module("sentence_transformers").SparseEncoder(
        str(path), device="cpu", local_files_only=True
    )


def dense(found: Sequence[TermWeights], size: int) -> np.ndarray:
    """(n, v), after a look at each text's arrays."""
    matrix = np.zeros((len(found), size), np.float32)
    for row, text in enumerate(found):
        assert (text.terms.dtype, text.weights.dtype) == (np.int32, np.float32)
        assert (np.diff(text.terms) > 0).all()
        assert (text.weights > 0).all()
        matrix[row, text.terms] = text.weights
    return matrix


def matrices(encoder: SpladeEncoder, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Of the texts as passages and as queries."""
    size = encoder.card["vocabulary"]
    return dense(encoder.encode_passages(texts), size), dense(encoder.encode_queries(texts), size)


# -------------------------------------------------------------------------------------------------- parity


@LAYOUTS
def test_weights_are_sentence_transformers_own(layouts: Layouts, layout: str) -> None:
    encoder, model = encoder_of(layouts[layout]), peer(layouts[layout])

    passages, queries = matrices(encoder, TEXTS)

    own = {"convert_to_sparse_tensor": False}
    np.testing.assert_allclose(passages, model.encode_document(TEXTS, **own).numpy(), atol=1e-4)
    np.testing.assert_allclose(queries, model.encode_query(TEXTS, **own).numpy(), atol=1e-4)


def test_a_query_weighs_the_same_through_onnxruntime_numpy_and_torch(
    encoder: SpladeEncoder, plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [text for text in TEXTS if len(text) < 60]
    passages, short = matrices(encoder, texts)
    monkeypatch.setattr(onnx_runner, "SHORT", 0)
    _, long = matrices(encoder_of(plain), texts)
    np.testing.assert_allclose(short, passages, atol=1e-4)
    np.testing.assert_allclose(long, passages, atol=1e-4)


def test_no_text_and_lone_surrogates_are_taken(encoder: SpladeEncoder) -> None:
    assert encoder.encode_passages([]) == encoder.encode_queries([]) == []
    passages, queries = matrices(encoder, ["a\ud800b"])
    np.testing.assert_allclose(passages, queries, atol=1e-4)


# -------------------------------------------------------------------------------------- inference-free models


@pytest.mark.parametrize("query", ["", " ", "\n"])
def test_a_query_without_a_token_has_no_term(free: SpladeEncoder, query: str) -> None:
    (found,) = free.encode_queries([query])
    assert len(found.terms) == 0


WRITTEN = {
    "idf.json": lambda pairs: json.dumps(dict(pairs)),
    "query_token_weights.txt": lambda pairs: "".join(f"{token}\t{weight}\n" for token, weight in pairs),
}


@pytest.mark.parametrize("file", WRITTEN)
def test_token_weights_beside_a_plain_model_are_for_its_queries(
    plain: Path, free: SpladeEncoder, tmp_path: Path, token_weights: Any, file: str
) -> None:
    folder = Path(shutil.copytree(plain, tmp_path / "free"))
    words = encoder_of(plain).vocabulary()
    pairs = [*zip(words, token_weights.tolist(), strict=True), ("not in the vocabulary", 3.0)]
    (folder / file).write_text(WRITTEN[file](pairs), encoding="utf-8")

    found = encoder_of(folder)

    assert found.card["kind"] == "inference-free"
    for mine, theirs in zip(matrices(found, TEXTS), matrices(free, TEXTS), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-6)


@pytest.mark.parametrize("text", ["[1, 2]", '{"lung": "heavy"}', "{"])
def test_broken_token_weights_are_a_usage_error(plain: Path, tmp_path: Path, text: str) -> None:
    folder = Path(shutil.copytree(plain, tmp_path / "free"))
    (folder / "idf.json").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=r"idf\.json"):
        encoder_of(folder).encode_queries(["lung"])


# ------------------------------------------------------------------------------------------- without torch


PROGRAM = """
import sys
from pathlib import Path
from retrieve_cli.models.encoders.splade_encoder import SpladeEncoder
from retrieve_cli.models.encoders.splade_folder import read_splade
encoder = SpladeEncoder(read_splade(Path(sys.argv[1])), cache_dir=Path(sys.argv[2]), device="cpu")
terms = [len(found.terms) for found in encoder.encode_queries(["lung", "word " * 80])]
print(terms, encoder.card["kind"], *sorted({"torch", "transformers", "onnx", "onnxruntime"} & {*sys.modules}))
"""


def test_queries_need_neither_torch_nor_once_exported_onnx(plain: Path, tmp_path: Path, run_python: RunPython) -> None:
    first = run_python(PROGRAM, plain, tmp_path).split("symmetric")
    again = run_python(PROGRAM, plain, tmp_path).split("symmetric")
    assert (first[1].split(), again[1].split()) == (["onnx", "onnxruntime"], ["onnxruntime"])
    assert first[0] == again[0]


def test_queries_of_an_inference_free_model_load_no_model_at_all(
    layouts: Layouts, tmp_path: Path, run_python: RunPython
) -> None:
    assert run_python(PROGRAM, layouts["inference-free"], tmp_path).split()[2:] == ["inference-free"]


# ------------------------------------------------------------------------------------------------- pruning


@given(
    weights=st.lists(st.sampled_from([-1.0, 0.0, 0.25, 0.5, 0.5, 1.0, 2.0]), max_size=12),
    min_weight=st.sampled_from([0.0, 0.25, 0.4, 0.5, 3.0]),
    top_terms=st.none() | st.integers(1, 12),
)
def test_pruning_keeps_the_heaviest_terms_that_are_heavy_enough(
    weights: list[float], min_weight: float, top_terms: int | None
) -> None:
    found = Pruning(min_weight, top_terms).dense(np.array(weights, np.float32))

    heavy = [(-weight, term) for term, weight in enumerate(weights) if weight > 0 and weight >= min_weight]
    expected = sorted(term for _, term in sorted(heavy)[:top_terms])
    assert found.terms.tolist() == expected
    assert found.weights.tolist() == [weights[term] for term in expected]


@pytest.mark.parametrize("layout", ["plain", "inference-free", "another family"])
def test_limits_hold_for_passages_and_for_queries_each_on_its_own(layouts: Layouts, layout: str) -> None:
    whole = encoder_of(layouts[layout])
    pruned = encoder_of(layouts[layout], min_weight=0.5, top_terms=9, query_top_terms=3)
    for limit, mine, theirs in zip((9, 3), matrices(pruned, TEXTS), matrices(whole, TEXTS), strict=True):
        for row, all_of_row in zip(mine, theirs, strict=True):
            expected = Pruning(0.5, limit).dense(all_of_row)
            np.testing.assert_allclose(row[row > 0], expected.weights, atol=1e-4)
            assert np.flatnonzero(row).tolist() == expected.terms.tolist()


def test_the_models_own_limit_is_not_exceeded(layouts: Layouts) -> None:
    wide, narrow = (encoder_of(layouts["limited"], top_terms=limit) for limit in (50, 5))
    assert (wide.card["top_terms"], wide.card["query_top_terms"], narrow.card["top_terms"]) == (7, 7, 5)


# ------------------------------------------------------------------------------------------- batches and limits


@given(lengths=st.lists(st.integers(1, 512), max_size=60), most=st.integers(1, 40), tokens=st.integers(512, 4096))
def test_batches_take_every_text_once_and_no_more_tokens_than_there_is_room_for(
    lengths: list[int], most: int, tokens: int
) -> None:
    descending = np.array(sorted(lengths, reverse=True), np.int64)
    stretches = list(_stretches(np.arange(len(lengths)), descending, most=most, tokens=tokens))
    assert [place for places, _ in stretches for place in places] == list(range(len(lengths)))
    for places, size in stretches:
        assert 1 <= size <= most
        assert size * descending[places[0]] <= tokens
        assert 2 * descending[places[-1]] >= descending[places[0]]


def test_texts_that_lose_their_end_are_counted(layouts: Layouts) -> None:
    encoder = encoder_of(layouts["plain"])
    encoder.encode_passages(["word " * (LIMIT - 2), "word " * (LIMIT - 1), "a"])
    assert encoder.truncated == 1
    encoder.encode_queries(["word " * (LIMIT - 2), "word " * LIMIT])
    assert encoder.truncated == 2
    free = encoder_of(layouts["inference-free"])
    free.encode_queries(["word " * LIMIT, "word " * (LIMIT + 1)])
    assert free.truncated == 1


# ----------------------------------------------------------------------------------------- card and vocabulary


def test_card_says_what_decides_a_weight(encoder: SpladeEncoder, layouts: Layouts) -> None:
    card = encoder.card
    assert (card["kind"], card["vocabulary"]) == ("symmetric", len(tokenizer()))
    assert (card["max_tokens"], card["pooling"], card["precision"]) == (LIMIT, "max", "float32")
    assert len(card["revision"]) == 40
    cards = [json.dumps(encoder_of(path).card) for path in map(layouts.__getitem__, MAKERS)]
    assert len(set(cards)) == len(cards)
    json.dumps(card)
    building: Any = SimpleNamespace(sparse=encoder)
    assert RETRIEVER.card(building) == {"family": "splade", **card}


@pytest.mark.parametrize(
    ("setting", "value", "stays"),
    [
        ("min_weight", 0.1, False),
        ("top_terms", 5, False),
        ("query_top_terms", 5, False),
        ("precision", "float16", False),
        ("batch_size", 3, True),
        ("threads", 1, True),
        ("device", "auto", True),
    ],
)
def test_what_changes_a_weight_changes_the_card_and_nothing_else_does(
    encoder: SpladeEncoder, plain: Path, setting: str, value: Any, stays: bool
) -> None:
    other = encoder_of(plain, **{"precision": "float32", setting: value})
    assert (other.card == encoder.card) is stays


def test_terms_have_the_names_of_the_vocabulary(free: SpladeEncoder) -> None:
    words = free.vocabulary()
    assert list(words[: len(PIECES)]) == PIECES
    (found,) = free.encode_queries(["lung the q"])
    assert {words[term] for term in found.terms} <= {"lung", "the", "q"}


# -------------------------------------------------------------------------------------------------- folders


def test_a_model_that_predicts_no_words_is_refused(plain: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(plain, tmp_path / "bare"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "architectures": ["BertModel"]}))
    with pytest.raises(UsageError, match="BertModel") as caught:
        read_splade(folder)
    assert "naver/splade-v3" in caught.value.hint


def test_a_folder_of_a_dense_model_or_that_is_absent_or_empty_is_refused(default_model: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Transformer, Pooling, Normalize"):
        read_splade(default_model.path)
    with pytest.raises(UsageError, match="does not exist"):
        read_splade(tmp_path / "absent")
    with pytest.raises(UsageError, match=r"config\.json"):
        read_splade(tmp_path)


BROKEN: dict[str, tuple[str, Any, str]] = {
    "modules": ("modules.json", {"no": "list"}, "modules"),
    "no module": ("modules.json", [], "not list any module"),
    "no routes": ("router_config.json", {"types": {}}, "routes"),
    "pooling": ("document_1_SpladePooling/config.json", {"pooling_strategy": "mean"}, "mean"),
    "pooling that is a list": ("document_1_SpladePooling/config.json", [], "not a JSON object"),
    "static queries without weights": (
        "query_0_SparseStaticEmbedding/model.safetensors",
        None,
        "not hold weights of tokens",
    ),
}
"""The file, what it says or None where it is missing, and what is said of it."""


@pytest.mark.parametrize(("file", "value", "named"), BROKEN.values(), ids=BROKEN)
def test_a_broken_folder_is_refused_with_the_file_or_the_setting(
    layouts: Layouts, tmp_path: Path, file: str, value: Any, named: str
) -> None:
    folder = Path(shutil.copytree(layouts["inference-free"], tmp_path / "broken"))
    if value is None:
        (folder / file).unlink()
    else:
        (folder / file).write_text(json.dumps(value))
    with pytest.raises(UsageError, match=named):
        read_splade(folder)


def test_routes_are_found_by_the_routers_mappings(layouts: Layouts, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(layouts["asymmetric"], tmp_path / "mapped"))
    config = json.loads((folder / "router_config.json").read_text())
    config["parameters"]["route_mappings"] = {"('query', None)": "document"}
    (folder / "router_config.json").write_text(json.dumps(config))
    assert (read_splade(layouts["asymmetric"]).kind, read_splade(folder).kind) == ("asymmetric", "symmetric")
