"""Cross-encoders against sentence-transformers, onnxruntime against torch, long passages against windows by hand."""

from __future__ import annotations

import importlib
import shutil
import string
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cross_models import edit, make_bert, make_qwen, make_xlmr

from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.models.rerankers.cross_folder import QWEN3_RERANKER, CrossFolder, read_cross_folder
from retrieve_cli.models.rerankers.scorer import CrossScorer
from retrieve_cli.models.runtimes.devices import why_no_gpu
from retrieve_cli.models.runtimes.model_folder import ModelFolder
from retrieve_cli.models.runtimes.tensors import read, write

Make = Callable[..., CrossFolder]

QUERY = "segment lungs"
PASSAGES = [
    "the word list",
    "",
    "registration of brain",
    "\u05e9\u05dc\u05d5 \U0001f600 caf\u00e9",
    "[SEP] <s> </s>",
    "a",
    "\u7ec6\u80de\u5206\u5272",
    "a\ud800b\x00\tc",
]
"""Each fits beside the query in 40 tokens. Empty, emoji, right-to-left, special tokens spelled out, a surrogate."""
LETTERS = " ".join((string.ascii_lowercase * 5)[:100])
"""A hundred tokens, each of which is the same wherever the text is cut."""


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> CrossFolder:
    """Two layers, word pieces, at most 40 tokens, the two texts told apart."""
    return make_bert(tmp_path_factory.mktemp("cross") / "tiny-bert")


@pytest.fixture(scope="module")
def xlmr(tmp_path_factory: pytest.TempPathFactory) -> CrossFolder:
    """Two layers, pieces of a unigram model, positions that start after the padding index, at most 40 tokens."""
    return make_xlmr(tmp_path_factory.mktemp("cross") / "tiny-xlmr")


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> CrossFolder:
    """Answers yes or no, one token a byte, with the template of a chat model; at most 600 tokens."""
    return make_qwen(tmp_path_factory.mktemp("cross") / "tiny-qwen")


@pytest.fixture(params=["bert", "xlmr"])
def folder(request: pytest.FixtureRequest) -> CrossFolder:
    """A cross-encoder that onnxruntime runs."""
    found: CrossFolder = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes a tiny BERT of one's own, by settings of its config.json and of its tokenizer."""
    return lambda tokenizer="BertTokenizer", **settings: make_bert(tmp_path / "own", tokenizer=tokenizer, **settings)


def scorer_of(folder: CrossFolder, **settings: Any) -> CrossScorer:
    """A scorer on the CPU, which keeps its exports beside the model."""
    return CrossScorer(folder, **{"cache_dir": folder.path.parent / "cache", "device": "cpu", **settings})


def peer(folder: CrossFolder, **settings: Any) -> Any:
    """The model as sentence-transformers loads it."""
    package = importlib.import_module("sentence_transformers")
    return package.CrossEncoder(str(folder.path), device="cpu", local_files_only=True, **settings)


def predicted(model: Any, query: str = QUERY, passages: Sequence[str] = PASSAGES) -> Any:
    """What sentence-transformers says, which takes no lone surrogate."""
    return model.predict([(query, passage.replace("\ud800", "\ufffd")) for passage in passages])


def agree(scorer: CrossScorer, model: Any, query: str = QUERY) -> bool:
    """Whether the scores of `PASSAGES` are what sentence-transformers says."""
    return np.allclose(scorer.score(query, PASSAGES), predicted(model, query), atol=1e-4)


def by_hand(passage: list[str], room: int, *, step: int) -> list[str]:
    """Windows of `room` words, the last one at the end."""
    starts = [*range(0, len(passage) - room, step), len(passage) - room]
    return [" ".join(passage[start : start + room]) for start in starts]


# ------------------------------------------------------------------------------------- sentence-transformers' scores


@pytest.mark.parametrize(("kind", "device"), [("auto", "cpu: onnxruntime ("), ("torch", "cpu: torch (as configured)")])
def test_scores_are_those_of_sentence_transformers(folder: CrossFolder, kind: Any, device: str) -> None:
    scorer = scorer_of(folder, kind=kind)
    assert scorer.device.startswith(device)
    assert agree(scorer, peer(folder))
    found = scorer.score(QUERY, PASSAGES)
    assert (found.dtype, found.shape) == (np.float32, (len(PASSAGES),))
    assert len(set(found.tolist())) == len(PASSAGES)


def test_model_that_answers_yes_or_no_scores_as_sentence_transformers_does_with_the_cards_prompt(
    qwen: CrossFolder,
) -> None:
    scorer = scorer_of(qwen, batch_size=3)
    assert scorer.device == "cpu: torch (the model reads pairs through a chat template)"
    assert agree(scorer, peer(qwen, processor_kwargs={"chat_template": QWEN3_RERANKER}))


def test_chat_template_that_takes_query_and_document_is_kept(qwen: CrossFolder, tmp_path: Path) -> None:
    path = shutil.copytree(qwen.path, tmp_path / "own")
    content = "{{ messages | selectattr('role', 'eq', role) | map(attribute='content') | first }}"
    own = "{% for role in ['query', 'document'] %}" + content + "? {% endfor %}"
    (path / "chat_template.jinja").write_text(own)
    changed = read_cross_folder(path)
    assert changed.template is None
    assert agree(scorer_of(changed), peer(changed))


@pytest.mark.parametrize("tokenizer", ["BertTokenizer", "TokenizersBackend"])
def test_the_two_texts_are_told_apart_where_the_models_tokenizer_does_so(make: Make, tokenizer: str | None) -> None:
    own = make(tokenizer)
    for kind in ("onnx", "torch"):
        assert agree(scorer_of(own, kind=kind), peer(own))


def test_prompt_that_the_model_names_as_its_default_stands_before_the_query(bert: CrossFolder, tmp_path: Path) -> None:
    model = peer(bert, prompts={"find": "word: "}, default_prompt_name="find")
    model.save_pretrained(str(tmp_path / "saved"))
    own = read_cross_folder(tmp_path / "saved")
    assert not np.allclose(predicted(model), predicted(peer(bert)), atol=1e-2)
    for kind in ("onnx", "torch"):
        scorer = scorer_of(own, kind=kind)
        assert scorer.card["prompt"] == "word: "
        assert agree(scorer, model)


@pytest.mark.parametrize(
    ("settings", "activation", "device"),
    [
        ({}, "Sigmoid", "onnxruntime"),
        ({"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}}, "Identity", "onnxruntime"),
        ({"sbert_ce_default_activation_function": "torch.nn.Tanh"}, "Tanh", "onnxruntime"),
        ({"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Softplus"}}, "Softplus", "torch"),
        ({"sentence_transformers": {"activation_fn": "somebody.else.Code"}}, "Sigmoid", "onnxruntime"),
    ],
)
def test_score_is_what_the_activation_of_the_models_settings_makes_of_the_logit(
    make: Make, settings: dict[str, Any], activation: str, device: str
) -> None:
    path = make().path
    edit(path / "config.json", **settings)
    own = read_cross_folder(path)
    scorer = scorer_of(own)
    assert scorer.card["activation"] == activation
    assert scorer.device.startswith(f"cpu: {device}")
    for each in (scorer, scorer_of(own, kind="torch")):
        assert agree(each, peer(own))


def test_family_that_the_graph_does_not_know_runs_in_torch_and_says_so(bert: CrossFolder, tmp_path: Path) -> None:
    transformers = importlib.import_module("transformers")
    sizes = {"dim": 36, "n_layers": 2, "n_heads": 3, "hidden_dim": 52, "max_position_embeddings": 40, "num_labels": 1}
    config = transformers.DistilBertConfig(**sizes, vocab_size=200, initializer_range=0.4)
    path = shutil.copytree(bert.path, tmp_path / "own")
    transformers.DistilBertForSequenceClassification(config).save_pretrained(path)
    edit(path / "tokenizer_config.json", tokenizer_class="DistilBertTokenizer")
    own = read_cross_folder(path)
    scorer = scorer_of(own)
    assert scorer.device == "cpu: torch (the graph does not know this distilbert)"
    assert agree(scorer, peer(own))
    with pytest.raises(Unavailable, match="distilbert"):
        scorer_of(own, kind="onnx").score(QUERY, PASSAGES)


# ------------------------------------------------------------------------------------------------- long passages


@pytest.mark.parametrize("kind", ["onnx", "torch"])
@pytest.mark.parametrize(("stride", "step"), [(0.5, 18), (1.0, 36)])
def test_long_passage_is_worth_its_best_window(bert: CrossFolder, kind: Any, stride: float, step: int) -> None:
    scorer = scorer_of(bert, kind=kind, stride=stride)
    windows = by_hand(LETTERS.split(), 36, step=step)
    expected = predicted(peer(bert), "segment", windows)
    found = scorer.score("segment", ["a", LETTERS, "b"])
    assert np.isclose(found[1], expected.max(), atol=1e-4)
    assert expected.max() - expected.min() > 1e-3
    assert scorer.truncated == 0


@pytest.mark.parametrize("kind", ["onnx", "torch"])
def test_long_query_leaves_half_of_the_room_to_the_passage_and_is_counted(bert: CrossFolder, kind: Any) -> None:
    scorer = scorer_of(bert, kind=kind)
    found = scorer.score(LETTERS, PASSAGES)
    assert scorer.truncated == 1
    shorter = " ".join(LETTERS.split()[: (40 - 3) // 2])
    assert np.array_equal(found, scorer.score(shorter, PASSAGES))
    assert scorer.truncated == 1


# ------------------------------------------------------------------------------------------- the card, the choice


def test_card_says_what_decides_a_score(bert: CrossFolder) -> None:
    card = dict(scorer_of(bert).card)
    assert len(card.pop("revision")) == 40
    settings = {"max_tokens": 40, "stride": 0.5, "activation": "Sigmoid", "prompt": "", "precision": "float32"}
    assert card == {"name": "tiny-bert", **settings}


def test_precision_that_only_torch_has_runs_in_torch_and_moves_the_scores_little(bert: CrossFolder) -> None:
    half = scorer_of(bert, precision="bfloat16")
    assert half.device == "cpu: torch (bfloat16 is requested)"
    assert half.card["precision"] == "bfloat16"
    exact = scorer_of(bert).score(QUERY, PASSAGES)
    assert 0 < np.abs(half.score(QUERY, PASSAGES) - exact).max() < 0.1


@pytest.mark.skipif(bool(why_no_gpu()), reason="no GPU")
def test_scores_in_half_precision_on_a_gpu_are_near_those_of_the_cpu(folder: CrossFolder) -> None:
    on_gpu = scorer_of(folder, device="auto")
    assert on_gpu.device.startswith("cuda: torch")
    assert on_gpu.card["precision"] == "float16"
    expected = scorer_of(folder).score(QUERY, PASSAGES)
    assert np.allclose(on_gpu.score(QUERY, PASSAGES), expected, atol=0.02)


@pytest.mark.parametrize("settings", [{"max_tokens": 41}, {"max_tokens": 0}, {"stride": 0.0}, {"stride": 1.5}])
def test_settings_that_make_no_window_are_refused_by_name(bert: CrossFolder, settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"`{next(iter(settings))}`"):
        scorer_of(bert, **settings)


def test_tokens_that_leave_no_room_for_a_passage_are_refused(bert: CrossFolder) -> None:
    with pytest.raises(UsageError, match="no space") as caught:
        scorer_of(bert, max_tokens=4).score(QUERY, PASSAGES)
    assert "max_tokens" in caught.value.hint


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"architectures": ["BertModel"]}, "BertModel"),
        ({"architectures": ["BertForMaskedLM"]}, "BertForMaskedLM"),
        ({"architectures": None}, "without a named architecture"),
        ({"architectures": ["LlamaForCausalLM"]}, "a language model"),
        ({"id2label": {"0": "no", "1": "perhaps", "2": "yes"}}, "3 labels"),
        ({"id2label": None}, "2 labels"),
    ],
)
def test_folder_that_holds_no_cross_encoder_is_refused_by_what_it_holds(
    make: Make, change: dict[str, Any], what: str
) -> None:
    path = make().path
    edit(path / "config.json", **change)
    with pytest.raises(UsageError, match=what) as caught:
        read_cross_folder(path)
    assert "cross-encoder/" in caught.value.hint


def test_embedding_model_and_a_folder_that_is_not_there_are_no_cross_encoder(
    tiny_bert: ModelFolder, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="an embedding model"):
        read_cross_folder(tiny_bert.path)
    with pytest.raises(UsageError, match="does not exist"):
        read_cross_folder(tmp_path / "nowhere")


@pytest.mark.parametrize(("kind", "package"), [("onnx", "onnxruntime"), ("torch", "sentence_transformers")])
def test_missing_package_is_said_with_the_line_that_installs_it(
    bert: CrossFolder, monkeypatch: pytest.MonkeyPatch, kind: Any, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(Unavailable, match=package) as caught:
        scorer_of(bert, kind=kind).score(QUERY, PASSAGES)
    line = "onnxruntime" if kind == "onnx" else "'retrieve-cli[torch]'"
    assert caught.value.hint == f"pip install {line}"


def test_weights_that_torch_cannot_load_are_unavailable(make: Make) -> None:
    own = make()
    own.model.weights[0].unlink()
    with pytest.raises(Unavailable, match="cannot load"):
        scorer_of(own, kind="torch").score(QUERY, PASSAGES)


def test_weights_without_a_head_are_refused_by_the_tensors_name(make: Make) -> None:
    own = make()
    tensors = {name: np.array(tensor) for name, tensor in read(own.model.weights).items() if "classifier" not in name}
    write(own.model.weights[0], tensors)
    with pytest.raises(UsageError, match=r"classifier\.weight"):
        scorer_of(own).score(QUERY, PASSAGES)


# ---------------------------------------------------------------------------------------------- the model cache

PROGRAM = """
import sys
from pathlib import Path
from retrieve_cli.models.rerankers.scorer import CrossScorer
from retrieve_cli.models.rerankers.cross_folder import read_cross_folder
scorer = CrossScorer(read_cross_folder(Path(sys.argv[1])), cache_dir=Path(sys.argv[2]), device="cpu")
assert not {"onnxruntime", "tokenizers", "onnx", "torch"} & set(sys.modules), "making one is cheap"
print(*scorer.score("segment lungs", ["the word list", "word " * 100]))
print(*sorted({"torch", "transformers", "sentence_transformers", "onnx"} & set(sys.modules)))
"""


def test_export_is_made_without_torch_and_a_second_process_reuses_it(
    folder: CrossFolder, tmp_path: Path, run_python: Callable[..., str]
) -> None:
    first, loaded = run_python(PROGRAM, folder.path, tmp_path / "cache").split("\n")[:2]
    assert loaded == "onnx"
    [graph] = (tmp_path / "cache").glob("*/model.onnx")
    written = graph.stat().st_ino, graph.stat().st_mtime_ns
    second, loaded = run_python(PROGRAM, folder.path, tmp_path / "cache").split("\n")[:2]
    assert (second, loaded) == (first, "")
    assert (graph.stat().st_ino, graph.stat().st_mtime_ns) == written
