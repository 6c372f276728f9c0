"""`retrieve engines verify`: what differs between an engine and the local index is measured, named, and fails."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engines.injected import Small, search_in, use
from engines.pgvector_server import PostgresServer
from engines.sqlite_collections import SqliteVectors
from engines.sqlite_engine import create_database
from samples import Program, fails, write_catalog

from retrieve_cli.assemble import engines
from retrieve_cli.assemble.indexes import local_indexes
from retrieve_cli.cli import progress
from retrieve_cli.cli.main import main
from retrieve_cli.config.loading import load
from retrieve_cli.engines.index import VectorEngineIndex
from retrieve_cli.evaluation.parity_lists import ExactIndex, selections
from retrieve_cli.storage.generation import open_generation
from retrieve_cli.storage.store import Store

RECORDS, QUERIES = 1200, 4
WORDS = [f"{first}{last}" for first in ("ka", "lo", "mi", "ne", "pu", "ra") for last in ("bel", "dor", "fin", "gas")]


def tools() -> list[dict[str, Any]]:
    """Records of random words: half of them have one licence, a hundredth one keyword."""
    random = np.random.default_rng(5)
    return [
        {
            "id": f"tool{number}",
            "name": " ".join(random.choice(WORDS, 2)),
            "description": " ".join(random.choice(WORDS, 12)),
            "license": "MIT" if number % 2 else "BSD-3-Clause",
            "keywords": ["rare"] if number % 100 == 7 else ["common"],
        }
        for number in range(RECORDS)
    ]


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a catalog, queries that are the descriptions of some of its records, and an index of the catalog
    in an exact engine."""
    folder = tmp_path_factory.mktemp("exact")
    records = tools()
    catalog = write_catalog(folder / "many.jsonl", records)
    lines = [{"query": each["description"], "relevant": [each["id"]]} for each in records[:: RECORDS // QUERIES]]
    (folder / "gold.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    create_database(folder / "server.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("RETRIEVE_ENCODER__KIND", "hashed")
        use(Small(folder / "server.db"), patch)
        assert main(["build", "--catalog", str(catalog)]) == 0
    return folder


@pytest.fixture
def gold(exact: Path, tmp_path: Path) -> Path:
    """The queries; a copy of the catalog, of the index and of the engine's database lies beside them."""
    shutil.copytree(exact, tmp_path, dirs_exist_ok=True)
    return tmp_path / "gold.jsonl"


Verify = Callable[..., Any]


@pytest.fixture
def verify(gold: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> Verify:
    """Run the command with the engine of the tests, which may lose rows."""

    def run(*flags: object, **engine: Any) -> Any:
        use(Small(gold.parent / "server.db", **engine), monkeypatch)
        return retrieve("engines", "verify", "--gold", gold, *flags)

    return run


def test_an_exact_engine_passes_with_the_same_answers(verify: Verify) -> None:
    done = verify("--json")
    found = json.loads(done.out)
    assert (done.code, found["faults"], found["queries"]) == (0, [], QUERIES)
    assert {each["retriever"] for each in found["retrievers"]} == {"bm25", "dense"}
    for each in found["retrievers"]:
        assert (each["overlap@10"], each["identical"]) == (1.0, 1.0)
        assert each["largest_difference"] <= 1e-5
        assert (each["difference"]["difference"], each["incomplete"]) == (0.0, 0)
        assert each["latency_ms"]["local"]["p50"] <= each["latency_ms"]["local"]["p95"]
        assert each["local_bytes"] > 0
    assert found["pipeline"]["difference"]["difference"] == 0.0
    assert_filters_are_measured_as_rows_and_as_stored_values(found["retrievers"][1]["filters"])


def assert_filters_are_measured_as_rows_and_as_stored_values(found: list[dict[str, Any]]) -> None:
    measured = [(each["share"], each["condition"], each["records"]) for each in found]
    assert measured[:2] == [(0.5, None, 600), (0.5, "license=BSD-3-Clause", 600)]
    assert (0.01, "keywords=rare", 12) in measured or (0.01, "keyword=rare", 12) in measured, measured
    assert [share for share, condition, _ in measured if condition is None] == [0.5, 0.1, 0.01, 0.001]
    assert found[1]["listed"] == QUERIES, "the condition is sent, though the engine would take that many rows"


def test_a_lossy_engine_fails_and_the_retriever_is_named(verify: Verify) -> None:
    done = verify(lossy=0.3)
    assert done.code == 9
    assert "dense in pgvector: overlap@10 is 0." in done.err
    assert "bm25 in pgvector" not in done.err
    assert "failed: dense in pgvector" in done.out


def test_progress_off_a_terminal_is_a_line_a_minute(verify: Verify, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    assert "comparing" not in verify().err


def test_a_loss_of_quality_above_the_limit_fails(verify: Verify) -> None:
    assert verify("--min-overlap", "0", lossy=0.3).code == 0
    done = verify("--min-overlap", "0", "--max-loss", "0.05", "--json", lossy=0.3)
    lost = json.loads(done.out)["retrievers"][1]["difference"]
    assert done.code == 9
    assert lost["difference"] < -0.05
    assert lost["lost"] > 0
    assert "dense in pgvector: nDCG@10 is" in json.loads(done.err)["error"]["message"]


def cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the engine return five rows of any list that need not be exact, as filtered graphs do."""
    nearest = SqliteVectors.nearest

    def few(self: SqliteVectors, *given: Any, exact: bool = False, **more: Any) -> Any:
        rows, scores = nearest(self, *given, exact=exact, **more)
        return (rows, scores) if exact else (rows[:5], scores[:5])

    monkeypatch.setattr(SqliteVectors, "nearest", few)


def test_short_lists_are_all_detected_and_completed(verify: Verify, monkeypatch: pytest.MonkeyPatch) -> None:
    cut_short(monkeypatch)
    done = verify("--json")
    found = json.loads(done.out)["retrievers"][1]
    assert (done.code, found["overlap@10"]) == (0, 1.0)
    assert found["short"] == found["detected"] == found["completed"] == QUERIES
    assert [each["short"] - each["detected"] for each in found["filters"]] == [0] * len(found["filters"])


def test_a_short_list_that_is_not_noticed_fails(verify: Verify, monkeypatch: pytest.MonkeyPatch) -> None:
    cut_short(monkeypatch)
    monkeypatch.setattr(VectorEngineIndex, "completed", 0)
    fails(verify(), 9, f"{QUERIES} of {QUERIES} lists that the engine left short were not detected")


def test_a_final_list_that_lacks_rows_fails(verify: Verify, monkeypatch: pytest.MonkeyPatch) -> None:
    find = VectorEngineIndex._find

    def shorter(self: Any, query: Any, wanted: Any) -> Any:
        return find(self, query, wanted._replace(depth=10 if wanted.allowed is None else wanted.depth))

    monkeypatch.setattr(VectorEngineIndex, "_find", shorter)
    fails(verify(), 9, f"dense in pgvector: {QUERIES} of {QUERIES} final lists have fewer rows than there are")


def test_the_tables_fit_a_terminal_and_name_what_was_compared(verify: Verify) -> None:
    lines = verify("--queries-limit", "3").out.splitlines()
    assert "3 queries, compared with the local index" in lines[0]
    assert max(map(len, lines[2:])) <= 90
    text = "\n".join(lines)
    for said in ("whole pipeline", "a pass over all rows", "license=BSD-3-Clause", "passed: overlap@10 >= 0.99"):
        assert said in text


def test_without_an_engine_there_is_nothing_to_verify(index: Path, gold: Path, retrieve: Program) -> None:
    fails(retrieve("engines", "verify", "--gold", gold), 2, "no engine is configured")


@pytest.mark.parametrize("flags", [("--min-overlap", "1.5"), ("--max-loss", "nan"), ("--queries-limit", "0")])
def test_thresholds_that_make_no_sense_are_rejected(verify: Verify, flags: tuple[str, str]) -> None:
    fails(verify(*flags), 2, flags[0])


def test_a_generation_that_the_engine_lost_is_an_error(verify: Verify, retrieve: Program, gold: Path) -> None:
    assert verify().code == 0
    made = engines.engine("pgvector", load(None))
    for staged in made.generations():
        made.drop(staged.generation)
    fails(retrieve("engines", "verify", "--gold", gold), 5, "retrieve engines push")


def test_selections_are_the_same_in_every_run(verify: Verify) -> None:
    assert verify("--queries-limit", "1").code == 0
    with open_generation(Store(Path("artifacts"))) as generation:
        first, second = selections(generation), selections(generation)
        assert [each.mask.tolist() for each in first] == [each.mask.tolist() for each in second]


def test_the_exact_reference_has_the_answers_of_a_flat_index(verify: Verify) -> None:
    assert verify("--queries-limit", "1").code == 0
    with open_generation(Store(Path("artifacts"))) as generation:
        index = local_indexes(generation, load(None))["dense"]
        queries = [index.vectors(np.array([row]))[0] for row in (3, 500)]  # type: ignore[attr-defined]
        mask = np.arange(RECORDS) % 3 == 0
        limits: dict[str, Any] = {"depth": 40, "starts": generation.starts, "allowed": [mask, None]}
        pairs = zip(index.search(queries, **limits), ExactIndex(index).search(queries, **limits), strict=True)
        for ours, theirs in pairs:
            assert theirs.rows.tolist() == ours.rows.tolist()
            assert theirs.scores.tobytes() == ours.scores.tobytes()
            assert (theirs.before, theirs.after) == (ours.before, ours.after)
            assert theirs.mean == pytest.approx(ours.mean, abs=1e-6)
            assert theirs.deviation == pytest.approx(ours.deviation, rel=1e-4)


def test_pgvector_passes_with_the_top_ten_of_the_local_index(
    postgres: PostgresServer, database: str, gold: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    search_in("pgvector", monkeypatch)
    monkeypatch.setenv("RETRIEVE_PGVECTOR__URL", postgres.url(database))
    assert retrieve("build", "--catalog", gold.with_name("many.jsonl")).code == 0
    done = retrieve("engines", "verify", "--gold", gold, "--json")
    found = json.loads(done.out)
    assert (done.code, found["faults"]) == (0, [])
    assert [each["identical"] for each in found["retrievers"]] == [1.0, 1.0]
    assert all(each["short"] == each["detected"] for one in found["retrievers"] for each in (one, *one["filters"]))
    assert found["engines"]["pgvector"]["bytes"] > 0
