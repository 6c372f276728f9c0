"""A query that matches badly says so: no word of it occurs, only stop words, or a calibration has little confidence."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from program.asking import Batch, Configure
from samples import ROOT, Program

from retrieve_cli.cli.main import main
from retrieve_cli.search.questions import WORDLESS

NEAREST = "no word of the query occurs in the index: the results are the nearest by meaning, which may be far"
CALIBRATE = " (retrieve eval --gold FILE --calibrate gives each result a confidence)"


def notices(retrieve: Program, *words: object) -> list[str]:
    """What is said of an answer, which is the same on stderr and in JSON."""
    found: list[str] = retrieve("query", "--json", *words).json.get("notices", [])
    assert retrieve("query", *words).err == "".join(f"note: {notice}\n" for notice in found)
    assert retrieve("query", "-q", *words).err == ""
    return found


def test_a_query_of_which_no_word_occurs_says_so(index: Path, retrieve: Program) -> None:
    assert notices(retrieve, "xyzzy plugh") == [NEAREST + CALIBRATE]
    assert notices(retrieve, "xyzzy plugh", "--mode", "bm25") == ["no word of the query occurs in the index"]
    assert notices(retrieve, "xyzzy plugh", "--mode", "dense") == []  # it knows of no words
    assert notices(retrieve, "xyzzy brain") == []
    assert notices(retrieve, "xyzzy", "--also", "brain") == []
    assert notices(retrieve, "xyzzy", "--also", "plugh") == [NEAREST + CALIBRATE]


def test_words_of_records_that_may_not_be_found_do_not_occur(tenants: Path, retrieve: Program) -> None:
    (unknown,) = notices(retrieve, "xyzzy", "--tenant", "acme")
    assert notices(retrieve, "skull", "--tenant", "acme") == [unknown]
    assert "occurs in the records that may be found" in unknown
    assert notices(retrieve, "lungs", "--tenant", "acme") == []
    assert notices(retrieve, "lungs [EXCLUDE:lungs]") == [unknown]


def test_a_query_of_stop_words_that_no_record_has_says_who_takes_no_part(index: Path, retrieve: Program) -> None:
    said = "bm25 is skipped: the query has only stop words"
    assert notices(retrieve, "hers theirs") == [said]
    assert notices(retrieve, "hers theirs", "--mode", "bm25") == [said]


@pytest.mark.parametrize("text", ["!!!", "?? -- ...", "[INCLUDE:lungs] *", "<=>"])
def test_a_text_without_words_matches_nothing_and_says_what_to_do(index: Path, retrieve: Program, text: str) -> None:
    for flags in ([], ["--mode", "bm25"], ["--mode", "dense"], ["--filter", "license=MIT"]):
        answer = retrieve("query", text, "--json", *flags).json
        assert (answer["results"], answer["total_matches"], answer["related"]) == ([], 0, []), flags
        assert answer["notices"] == [WORDLESS], flags


@pytest.mark.parametrize("text", ["3", "\N{BRAIN}", "肺", "a!"])
def test_a_digit_a_pictograph_and_a_letter_are_words(index: Path, retrieve: Program, text: str) -> None:
    assert WORDLESS not in notices(retrieve, text)


def test_a_notice_is_on_the_answer_of_its_own_query(index: Path, batch: Batch) -> None:
    brain, nonsense = batch(["brain", "xyzzy"])
    assert "notices" not in brain
    assert nonsense["notices"] == [NEAREST + CALIBRATE]


def test_a_step_that_is_skipped_is_in_the_notices_of_json(index: Path, retrieve: Program, configure: Configure) -> None:
    configure("rerank", backend="cross_encoder", model="not-on-this-machine")
    (said,) = retrieve("query", "brain", "--json").json["notices"]
    assert said.startswith("cross_encoder is skipped: ")


def test_a_best_confidence_below_that_of_an_average_result_is_said(sample: Path, retrieve: Program) -> None:
    nonsense = retrieve("query", "how to bake bread", "--exact-words", "--json", "--artifacts", sample).json
    base_rate = nonsense["confidence"]["base_rate"]
    assert nonsense["results"][0]["confidence"] < base_rate < 1
    first, second = nonsense["notices"]
    assert first == NEAREST  # nothing is to be calibrated
    assert second.startswith("nothing matches well: the best result has a confidence of 0.")
    assert second.endswith(f"and {base_rate:.0%} of the results of the judged queries were relevant")
    for query in ("segment lungs in CT", "count cells", "stitch tiles", "convert DICOM to NIfTI"):
        assert "notices" not in retrieve("query", query, "--json", "--artifacts", sample).json


@pytest.fixture(scope="module")
def sample(sample_index: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The artifacts folder of the sample catalog, calibrated on its judgments."""
    pytest.importorskip("sklearn")
    artifacts = shutil.copytree(sample_index, tmp_path_factory.mktemp("calibrated") / "artifacts")
    gold = ROOT / "catalogs" / "gold.jsonl"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(artifacts.parent)
        assert main(["eval", "--gold", str(gold), "--calibrate", "--artifacts", str(artifacts), "-q"]) == 0
    return artifacts
