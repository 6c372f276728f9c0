"""The ground of `make bench-scale`: catalogs that follow Zipf's law, planted states, the arithmetic of its table."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from samples import ROOT

from benchmarks import budget, planted, scale, zipfian
from benchmarks.process import ENVIRONMENT, run
from benchmarks.scale_parts import Bench
from benchmarks.scale_table import Sample, Table, growth, median, paired_ratio

POSITIVE = st.floats(0.001, 1000)


# ------------------------------------------------------------------------------------------------- catalogs


def test_a_catalog_is_the_same_again_and_a_smaller_one_is_its_beginning() -> None:
    records = list(zipfian.records(zipfian.BLOCK + 10))
    assert records == list(zipfian.records(zipfian.BLOCK + 10))
    assert list(zipfian.records(300)) == records[:300]
    assert next(zipfian.records(1, seed=1)) != records[0]


def test_a_catalog_of_any_size_is_drawn_block_by_block() -> None:
    endless = zipfian.records(10**12)
    assert [record["id"] for record in islice(endless, 3)] == ["record-0000000", "record-0000001", "record-0000002"]


def test_the_memory_of_writing_a_catalog_does_not_grow_with_it(tmp_path: Path) -> None:
    environment = {**ENVIRONMENT, "PYTHONPATH": str(ROOT)}

    def peak(count: int) -> float:
        command = (sys.executable, "-m", "benchmarks.zipfian", "catalog", str(count), str(tmp_path / "catalog.jsonl"))
        return run(command, environment=environment, folder=tmp_path).mebibytes

    assert peak(6 * zipfian.BLOCK) < peak(zipfian.BLOCK) + 8


def test_word_frequencies_fall_as_zipf_says() -> None:
    ranks = np.arange(2000)
    counts = np.bincount(zipfian.draw(np.random.default_rng(0), 2_000_000), minlength=zipfian.VOCABULARY)
    slope, _ = np.polyfit(np.log(ranks + 1 + zipfian.OFFSET), np.log(counts[ranks]), 1)
    assert -1.05 < slope < -0.95


def test_descriptions_have_words_by_that_law_and_a_realistic_length() -> None:
    rank_of = {word: rank for rank, word in enumerate(zipfian.words())}
    texts = [record["description"].lower().replace(".", "").split() for record in zipfian.records(2000)]
    assert all(zipfian.LENGTHS[0] <= len(words) <= zipfian.LENGTHS[1] for words in texts)
    counts = Counter(rank_of[word] for words in texts for word in words)
    expected = 1 / (np.arange(200) + 1 + zipfian.OFFSET)
    shares = np.array([counts[rank] for rank in range(200)]) / sum(counts[rank] for rank in range(200))
    assert np.abs(shares / (expected / expected.sum()) - 1).mean() < 0.15
    assert len(counts) > 10_000


def test_each_record_has_a_name_and_an_id_of_its_own() -> None:
    records = list(zipfian.records(5000))
    assert len({record["name"].split()[0] for record in records}) == len({record["id"] for record in records}) == 5000


@given(st.sampled_from(sorted(zipfian.KINDS)))
def test_a_kind_of_query_has_words_of_its_ranks(kind: str) -> None:
    first, end, size = zipfian.KINDS[kind]
    known = set(zipfian.words()[first:end])
    texts = [query["text"].split() for query in zipfian.queries(80) if query["kind"] == kind]
    assert len(texts) == 20
    assert all(len(words) == size and known.issuperset(words) for words in texts)


def test_vectors_have_length_1_and_neighbours_and_are_the_same_again(tmp_path: Path) -> None:
    zipfian.write_vectors(6000, tmp_path / "vectors.npy")
    vectors = np.load(tmp_path / "vectors.npy")
    assert vectors.shape == (6000, zipfian.DIM)
    assert np.array_equal(vectors, np.concatenate(list(zipfian.vectors(6000))))
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    similar = vectors[:200] @ vectors[200:].T
    assert similar.max(axis=1).mean() > 0.5
    assert abs(np.median(similar)) < 0.2


def test_planted_states_depend_on_the_text_alone_and_words_resemble_themselves() -> None:
    one, other = planted.states([101, 2000, 3000, 102]), planted.states([101, 4000, 3000, 102])
    assert np.array_equal(one, planted.states([101, 2000, 3000, 102]))
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (one, other)]
    similar = (unit[0] * unit[1]).sum(axis=1)
    assert 0.5 < similar[2] < 0.999
    assert similar[1] < 0.5


# ---------------------------------------------------------------------------------------------------- table


@given(POSITIVE, st.floats(-0.5, 2.5), st.lists(st.integers(10, 10**7), min_size=2, max_size=5, unique=True))
def test_growth_finds_the_exponent_of_a_power(factor: float, exponent: float, sizes: Sequence[int]) -> None:
    found = growth({size: factor * size**exponent for size in sizes})
    assert sorted(found) == sorted(sizes)[1:]
    assert all(abs(value - exponent) < 1e-6 for value in found.values())


@given(st.lists(st.tuples(POSITIVE, POSITIVE), min_size=1, max_size=9))
def test_a_ratio_is_the_median_within_rounds(rounds: Sequence[tuple[float, float]]) -> None:
    before, now = ([Sample(each[side], 1.0) for each in rounds] for side in (0, 1))
    ratio = paired_ratio(before, now)
    assert ratio == pytest.approx(float(np.median([mine / theirs for theirs, mine in rounds])))


def test_a_median_leaves_out_what_was_not_measured() -> None:
    samples = [Sample(1.0, 2.0), Sample(3.0, 2.0, 10.0), Sample(2.0, 2.0, 30.0)]
    assert (median(samples, "cpu"), median(samples, "mebibytes"), median(samples, "read")) == (2.0, 20.0, None)
    assert median([], "cpu") is None


def test_the_table_has_a_line_for_each_program_and_says_what_is_missing() -> None:
    table = Table()
    for size, cpu in ((10, 0.5), (1000, 5.0)):
        table.add("build", size, "before", Sample(cpu * 2, 1.0, 100.0))
        table.add("build", size, "now", Sample(cpu, 1.0, 50.0))
    table.note("build", 1000, "other", "not built within 1 GiB")
    head, *lines = table.lines(before="before", now="now")
    assert head.split()[-2:] == ["now/before", "growth"]
    assert len(lines) == 5
    assert lines[1].split() == ["10", "now", "0.50", "s", "1.00", "s", "50.0", "0.50×"]
    assert lines[3].split()[-2:] == ["0.50×", "n^0.50"]
    assert lines[4].endswith("not built within 1 GiB")
    assert len(table.as_json()) == 5


def test_imports_are_summed_by_group_and_stages_read() -> None:
    said = "import time:       700 |       1500 |   numpy.linalg\nimport time: 300 | 300 | retrieve_cli.contracts\n"
    assert budget.by_group(budget.imported(said)) == {"NumPy": 0.7, "contracts and settings": 0.3}
    assert budget.group_of("numpyro") == budget.OTHER
    stages = budget.stages("open 1.5 ms, encode 2.0 ms, total 3.5 ms\ncommand 10.0 ms, ended 99.0 ms")
    assert stages[budget.STAGES["encode"]] == 2.0
    assert stages[budget.COMMAND] == 6.5


# ---------------------------------------------------------------------------------------------------- whole


def run_scale(*flags: str, folder: Path) -> tuple[str, str, list[dict[str, object]]]:
    """Run the benchmark in a process; its table, what it said on the way, and all samples."""
    flags = (*flags, "--rounds", "1", "--queries", "8", "--no-warm-up")
    flags = (*flags, "--work", str(folder / "work"), "--peers", str(folder / "none"))
    command = (sys.executable, "-m", "benchmarks.scale", *flags, "--json", str(folder / "samples.json"))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout, done.stderr, json.loads((folder / "samples.json").read_text("utf-8"))


def test_a_small_run_measures_all_parts_and_a_second_one_keeps_the_indexes(tmp_path: Path) -> None:
    table, said, samples = run_scale("--sizes", "100,200", folder=tmp_path)
    assert "tantivy: skipped" in said
    figures = {(each["work"], each["records"]) for each in samples if each["program"] == "now"}
    works = {work for work, _ in figures}
    assert {"build, with token vectors", "cold query, BM25", "nothing cached, BM25"} <= works
    assert {"sync, one record changed", "dense search, warm, one core", "inspect record"} <= works
    assert "answer with late interaction, warm" in works
    assert figures == {(work, size) for work in works for size in (100, 200)}
    assert all(sample["cpu"] > 0 for each in samples for sample in each["samples"])
    assert "n^" in table
    again, _, _ = run_scale("--sizes", "200", "--only", "build", folder=tmp_path)
    assert again.count("kept, built at") == 2


def test_a_part_that_is_not_known_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert scale.main(["--only", "cold,hot"]) == 2
    assert "unknown: hot" in capsys.readouterr().out


def test_fewer_rounds_are_run_of_a_large_catalog(tmp_path: Path) -> None:
    bench = Bench(scale.options_of(["--work", str(tmp_path), "--rounds", "5"]))
    assert (bench.rounds(100_000), bench.rounds(1_000_000)) == (5, 2)
