"""Calibration end to end: measured on judged queries, kept beside the index, shown with every hit, asked for."""

import json
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from samples import Program, write_catalog

from retrieve_cli.errors import UsageError
from retrieve_cli.retrieval.calibration import read

TOPICS = ["lung", "brain", "cell", "liver", "retina", "heart", "bone", "skin", "kidney", "tumour", "nerve", "blood"]
ACTS = ["segment", "count", "align", "track", "register", "denoise"]


@pytest.fixture
def gold(tmp_path: Path, retrieve: Program) -> Path:
    """An index of seventy-two tools, one for each act on each organ, and a query for each of them."""
    records = [
        {"id": f"{act}-{topic}", "name": f"{act.title()} {topic}", "description": f"A tool to {act} the {topic}."}
        for act in ACTS
        for topic in TOPICS
    ]
    assert retrieve("build", "--catalog", write_catalog(tmp_path / "c.jsonl", records)).code == 0
    lines = [
        {"query": f"{act} the {topic}", "relevant": {f"{act}-{topic}": 2, f"{act}-{TOPICS[at - 1]}": 1}}
        for act in ACTS
        for at, topic in enumerate(TOPICS)
    ]
    return write_catalog(tmp_path / "gold.jsonl", lines)


def test_without_a_calibration_there_is_no_such_field(gold: Path, retrieve: Program) -> None:
    found = retrieve("query", "count the cells", "--json").json
    assert "confidence" not in found
    assert not any("confidence" in result for result in found["results"])
    done = retrieve("query", "count the cells", "--min-confidence", "0.5")
    assert done.code == 2
    assert "eval --gold FILE --calibrate" in done.err
    assert "confidence" not in retrieve("query", "cells", "--format", "csv").out


def test_a_calibrated_index_says_how_sure_each_hit_is_and_where_that_comes_from(gold: Path, retrieve: Program) -> None:
    done = retrieve("eval", "--gold", gold, "--calibrate", "--json")
    assert done.code == 0, done.err
    measured = done.json["calibration"]
    assert 0 <= measured["calibration_error"] < 0.2
    assert measured["brier"] < measured["brier_base"]
    found = retrieve("query", "count the cells", "--json").json
    told = found["confidence"]
    assert (told["queries"], told["generation"]) == (72, found["generation"])
    sure = [result["confidence"] for result in found["results"]]
    assert sure == sorted(sure, reverse=True)
    assert sure[0] > sure[-1]
    (calibration,) = read(Path("artifacts/calibration.json"))
    assert sure == calibration.confidence([result["score"] for result in found["results"]]).tolist()
    shown = retrieve("query", "count the cells", "--explain").out
    assert shown.splitlines()[0].endswith(f"{100 * sure[0]:.0f} %")
    assert "\nconfidence  " in shown
    assert retrieve("query", "cells", "--format", "csv").out.splitlines()[0].split(",")[5] == "confidence"


def test_asking_for_confidence_leaves_out_the_less_sure_and_says_what_that_costs(gold: Path, retrieve: Program) -> None:
    assert retrieve("eval", "--gold", gold, "--calibrate").code == 0
    everything = retrieve("query", "count the cells", "--json").json["results"]
    limit = (everything[0]["confidence"] + everything[-1]["confidence"]) / 2
    found = retrieve("query", "count the cells", "--min-confidence", limit, "--json").json
    kept = [result["id"] for result in everything if result["confidence"] >= limit]
    assert [result["id"] for result in found["results"]] == kept
    assert 0 < len(kept) < len(everything)
    told = found["confidence"]
    assert told["left_out"] == len(everything) - len(kept)
    (calibration,) = read(Path("artifacts/calibration.json"))
    assert (told["false_accept_rate"], told["false_reject_rate"]) == calibration.at(limit)
    none = retrieve("query", "count the cells", "--min-confidence", "1", "--exit-status", "--json")
    assert (none.code, none.json["total_results"]) == (3, 0)
    assert retrieve("query", "cells", "--min-confidence", "1.5").code == 2


def test_a_calibration_holds_for_the_scores_it_was_made_on_and_no_others(
    gold: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert retrieve("eval", "--gold", gold, "--calibrate").code == 0
    for flags in (["--mode", "bm25"], ["--chunks"], ["--also", "how many cells"]):
        assert "confidence" not in retrieve("query", "cells", *flags, "--json").json
    assert retrieve("eval", "--gold", gold, "--calibrate", "--mode", "bm25").code == 0
    assert retrieve("query", "cells", "--mode", "bm25", "--json").json["confidence"]["queries"] == 72
    assert "confidence" in retrieve("query", "cells", "--json").json
    for name, value in (("FUSION__WEIGHTS", "{dense: 0.5}"), ("DIVERSITY__MMR", "0.5")):
        with monkeypatch.context() as patch:
            patch.setenv(f"RETRIEVE_{name}", value)
            assert "confidence" not in retrieve("query", "cells", "--json").json


def test_a_sync_keeps_it_and_says_on_which_generation_it_was_measured(
    gold: Path, retrieve: Program, tmp_path: Path
) -> None:
    before = retrieve("eval", "--gold", gold, "--calibrate", "--json").json["generation"]
    with (tmp_path / "c.jsonl").open("a") as file:
        file.write(json.dumps({"id": "new", "name": "Paint walls", "description": "A tool to paint."}) + "\n")
    assert retrieve("sync").code == 0
    found = retrieve("query", "count the cells", "--json").json
    assert found["generation"] != before
    assert found["confidence"]["generation"] == before


def test_hits_that_nobody_judged_count_as_not_relevant(gold: Path, retrieve: Program) -> None:
    found = retrieve("eval", "--gold", gold, "--calibrate", "--json").json["calibration"]
    assert (found["pairs"], found["queries"]) == (720, 72)
    judged = [json.loads(line) for line in gold.read_text().splitlines()]
    hits = retrieve("eval", "--gold", gold, "--metrics", "P@10", "--json").json
    assert found["relevant"] == pytest.approx(hits["metrics"]["P@10"] * 10 * len(judged))


def test_a_damaged_file_is_named_and_set_aside_by_the_next_calibration(gold: Path, retrieve: Program) -> None:
    path = Path("artifacts/calibration.json")
    path.write_text("{")
    done = retrieve("query", "cells")
    assert done.code == 0
    assert "no confidence: artifacts/calibration.json" in done.err
    assert retrieve("query", "cells", "--min-confidence", "0.5").code == 2
    done = retrieve("eval", "--gold", gold, "--calibrate")
    assert done.code == 0
    assert "was renamed to" in done.err
    assert retrieve("query", "cells").code == 0


def test_no_flipped_bit_changes_a_confidence_in_silence(gold: Path, retrieve: Program) -> None:
    assert retrieve("eval", "--gold", gold, "--calibrate").code == 0
    path = Path("artifacts/calibration.json")
    sound, known = path.read_bytes(), read(path)
    for bit in Random(3).sample(range(8 * len(sound)), 400):
        content = bytearray(sound)
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        with suppress(UsageError):
            assert read(path) == known
