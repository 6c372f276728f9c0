"""config.yaml, the environment, the flags; and that every key changes something."""

import dataclasses
from pathlib import Path

import pytest
import yaml
from samples import ROOT, TOOLS, Program, write_catalog

from retrieve_cli.config import loading
from retrieve_cli.config.settings import Settings
from retrieve_cli.errors import UsageError


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "some.yaml"
    path.write_text(text, "utf-8")
    return path


def test_the_file_of_the_repository_shows_every_key_at_its_default() -> None:
    shown = yaml.safe_load((ROOT / "config.yaml").read_text("utf-8"))
    assert shown == dataclasses.asdict(Settings())


def test_a_flag_wins_over_the_environment_which_wins_over_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "search: {k: 3, depth: 30, mode: dense}")
    settings = loading.load(path, {"RETRIEVE_SEARCH__K": "4", "RETRIEVE_SEARCH__DEPTH": "40"})
    settings = loading.override(settings, {"search": {"k": 5}}, where="a flag")
    assert (settings.search.k, settings.search.depth, settings.search.mode) == (5, 40, "dense")


def test_a_path_is_relative_to_the_file(tmp_path: Path) -> None:
    settings = loading.load(written(tmp_path, "models: {dir: models}"), {})
    assert settings.models.dir == tmp_path / "models"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("bm26: {k1: 1}", "section `bm26`", "bm25"),
        ("bm25: {k: 1}", "`bm25.k`", "k1"),
        ("bm25: {variant: lucen}", "'lucen'", "lucene"),
        ("bm25: {b: 2}", "from 0 to 1", "config.yaml"),
        ("search: {k: 0}", "at least 1", "config.yaml"),
        ("search: {k: true}", "a whole number", "config.yaml"),
        ("chunking: {coherence: 1}", "true or false", "config.yaml"),
        ("bm25: 3", "no mapping", "bm25:"),
        ("- 1", "no mapping", "config.yaml"),
        ("a: [", "not valid YAML", "mend"),
        ("catalog: {fields: {a: {tu: x}}}", "`catalog.fields.a.tu`", "to"),
        ("catalog: {fields: {a: much}}", "a number", "config.yaml"),
        ("catalog: {fields: 3}", "no mapping", "summary"),
    ],
)
def test_what_is_not_known_is_refused_with_the_nearest_that_is(
    tmp_path: Path, text: str, message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        loading.load(written(tmp_path, text), {})
    assert message in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("encoder.download", "models.auto_download"),
        ("encoder.models_dir", "models.dir"),
        ("encoder.cache_dir", "models.cache_dir"),
    ],
)
def test_a_key_that_has_moved_is_refused_with_its_new_name(
    tmp_path: Path, retrieve: Program, monkeypatch, old: str, new: str
) -> None:
    section, _, key = old.partition(".")
    done = retrieve("query", "x", "--config", written(tmp_path, f"{section}: {{{key}: null}}"))
    assert done.code == 2
    assert f"{old} is now {new} (in {tmp_path / 'some.yaml'})" in done.err
    variable = f"RETRIEVE_{section}__{key}".upper()
    monkeypatch.setenv(variable, "null")
    done = retrieve("query", "x")
    assert done.code == 2
    assert f"{old} is now {new} (in environment variable {variable})" in done.err
    assert f"RETRIEVE_{new.replace('.', '__').upper()}" in done.err


def test_an_unknown_environment_variable_is_refused() -> None:
    with pytest.raises(UsageError, match="RETRIEVE_SEARCH__KK"):
        loading.load(None, {"RETRIEVE_SEARCH__KK": "1"})


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path, retrieve: Program) -> None:
    assert retrieve("query", "x", "--config", tmp_path / "none.yaml").code == 2


def test_the_config_file_of_the_working_folder_is_used(index: Path, retrieve: Program) -> None:
    Path("config.yaml").write_text("search: {k: 1}\n")
    assert len(retrieve("query", "brain", "--json").json["results"]) == 1


TEXT = "First sentence about lungs. Second one on cells in microscopes. Third names brains and scans. " * 12
RECORDS = [
    *TOOLS,
    {"id": "long", "name": "Long", "description": TEXT, "summary": "unusual zebra words"},
    {"id": "running", "name": "the Runner", "description": "It was running the brains of a scanner on and on."},
]

BUILD_KEYS = {
    "catalog.fields": {"summary": 1.0},
    "chunking.strategy": "section",
    "chunking.size": 40,
    "chunking.overlap": 12,
    "chunking.coherence": True,
    "chunking.language": "de",
    "encoder.kind": "onnx",
    "encoder.dim": 64,
    "bm25.backend": "rank_bm25",
    "bm25.variant": "okapi",
    "bm25.unit": "chunk",
    "bm25.k1": 2.0,
    "bm25.b": 0.1,
    "bm25.stemming": "none",
    "bm25.stop_words": "none",
    "dense.index": "hnsw",
    "dense.enabled": False,
}
"""Keys that change the generation of the catalog above, each with another value than its default."""

SHORT_CHUNKS = {"chunking.overlap", "chunking.coherence", "chunking.language"}
"""Keys that matter only where a record is cut."""

QUERY_KEYS = {
    "search.mode": "bm25",
    "search.k": 2,
    "fusion.method": "rrf",
    "fusion.normalization": "minmax",
    "fusion.weights": {"dense": 0.1, "bm25": 0.9},
    "search.retrievers": ["dense"],
    "search.engine": "naive",
    "search.grade": 0.2,
    "search.max_distance": 0.8,
    "search.min_score": 0.0,
    "diversity.per_group": 1,
    "diversity.mmr": 0.3,
    "budget.max_chunks": 2,
    "budget.max_tokens": 20,
}
"""Keys that change the answer from one and the same index."""

ELSEWHERE = {
    "sources.auto_sync": "tests/sync",
    "sources.list": "tests/sync",
    "sync.max_shrink": "tests/sync",
    "sync.wait": "tests/sync",
    "store.keep": "tests/sync",
    "docs.name_weight": "test_a_title_weighs_in_documents",
    "build.max_fail": "test_the_share_that_may_fail",
    "search.depth": "test_depth_limits_what_a_leg_is_asked_for",
    "search.deadline_ms": "tests/program/test_deadline.py",
    "search.file_tokens": "tests/program/test_sample_gold.py",
    "search.similarity_top_k": "tests/program/test_engines.py",
    "search.require_tenant": "tests/program/test_requests.py",
    "search.max_also": "tests/program/test_requests.py",
    "search.per_text": "tests/program/test_requests.py",
    **{f"graph.{key}": "tests/program/test_graph.py" for key in ("relations", "entities", "files")},
    **{
        f"expansion.{key}": "tests/program/test_graph.py"
        for key in ("enabled", "method", "depth", "max_nodes", "decay", "seeds", "kinds", "bundle")
    },
    **{
        f"gating.{key}": "tests/program/test_gating_command.py"
        for key in ("enabled", "field", "global_candidates", "top_groups", "per_group", "min_results")
    },
    "diversity.per_source": "tests/program/test_gating_command.py",
    "broadening.min_results": "tests/program/test_broadening_command.py",
    "broadening.max_retries": "tests/program/test_broadening_command.py",
    "context.window": "tests/program/test_context_command.py",
    "context.table_window": "tests/program/test_context_command.py",
    "budget.tokenizer": "tests/program/test_context_command.py",
    "log.queries": "tests/program/test_query_logs.py",
    "fusion.rrf_k": "test_the_constant_of_reciprocal_ranks",
    "dense.hnsw_m": "test_the_shape_of_a_graph",
    "dense.hnsw_ef_construction": "test_the_shape_of_a_graph",
    "dense.hnsw_ef_search": "tests/indexes",
    "encoder.model": "tests/encoders",
    "encoder.device": "test_a_required_gpu_that_is_absent_is_an_error",
    "models.auto_download": "tests/program/test_downloads.py",
    "models.dir": "tests/program/test_models.py",
    "models.cache_dir": "test_the_cache_of_models_is_where_it_is_configured",
    "encoder.query_prefix": "test_prefixes_change_the_vectors",
    "encoder.passage_prefix": "test_prefixes_change_the_vectors",
    "encoder.precision": "tests/encoders",
    "encoder.batch_size": "tests/encoders",
    "splade.model": "tests/program/test_splade.py",
    "splade.policy": "tests/program/test_splade.py",
    "splade.device": "tests/encoders",
    "splade.batch_size": "tests/encoders",
    "splade.min_weight": "tests/encoders",
    "splade.top_terms": "tests/program/test_splade.py",
    "splade.query_top_terms": "tests/encoders",
    **{
        f"encoder.{key}": "tests/program/test_remote_encoder.py"
        for key in (
            "base_url",
            "api_key_env",
            "dimensions",
            "max_tokens",
            "tokenizer",
            "timeout_s",
            "retries",
            "concurrency",
        )
    },
    "rerank.backend": "tests/program/test_rerank.py",
    "rerank.policy": "tests/program/test_rerank.py",
    "rerank.depth": "tests/program/test_rerank.py",
    "rerank.keep": "tests/program/test_rerank.py",
    "rerank.interpolate": "tests/program/test_rerank.py",
    "rerank.min_score": "tests/program/test_rerank.py",
    "rerank.model": "tests/program/test_rerank.py",
    "rerank.device": "tests/encoders",
    "rerank.max_tokens": "tests/encoders",
    "rerank.batch_size": "tests/encoders",
    "rerank.base_url": "tests/program/test_rerank.py",
    "rerank.api_key_env": "tests/program/test_rerank.py",
    "rerank.timeout_s": "tests/encoders/remote",
    "rerank.retries": "tests/encoders/remote",
    "rerank.concurrency": "tests/encoders/remote",
    "rerank.form": "tests/encoders/remote",
    "rerank.prompt": "tests/encoders/remote",
}
"""Keys whose effect another test shows."""


def test_every_key_has_a_test_that_it_changes_a_result() -> None:
    keys = {
        f"{section.name}.{key.name}"
        for section in dataclasses.fields(Settings)
        if section.name != "plugins"  # its keys are those of each plug-in: tests/program/test_plugins.py
        for key in dataclasses.fields(getattr(Settings(), section.name))
    }
    assert keys == {*BUILD_KEYS, *QUERY_KEYS, *ELSEWHERE}


def built(retrieve: Program, tmp_path: Path, name: str, **keys: object) -> str:
    """The generation built with the given keys."""
    sections: dict[str, dict[str, object]] = {}
    for key, value in keys.items():
        section, _, inner = key.partition(".")
        sections.setdefault(section, {})[inner] = value
    path = tmp_path / f"{name}.yaml"
    path.write_text(yaml.safe_dump(sections))
    source = write_catalog(tmp_path / "all.jsonl", RECORDS)
    done = retrieve("build", "--catalog", source, "--artifacts", tmp_path / name, "--config", path, "--json")
    assert done.code == 0, done.err
    return str(done.json["generation"])


@pytest.mark.parametrize("key", BUILD_KEYS)
def test_a_key_of_the_build_changes_what_is_built(tmp_path: Path, retrieve: Program, monkeypatch, key: str) -> None:
    monkeypatch.delenv("RETRIEVE_ENCODER__KIND")
    base = {"encoder.kind": "hashed", **({"chunking.size": 48} if key in SHORT_CHUNKS else {})}
    assert built(retrieve, tmp_path, "a", **base) != built(retrieve, tmp_path, "b", **{**base, key: BUILD_KEYS[key]})


@pytest.mark.parametrize("key", QUERY_KEYS)
def test_a_key_of_the_search_changes_the_answer(index: Path, retrieve: Program, monkeypatch, key: str) -> None:
    def answer() -> list[tuple[str, float]]:
        found = retrieve("query", "brain volumes and images", "--json").json["results"]
        return [(result["id"], result["score"]) for result in found]

    before = answer()
    monkeypatch.setenv(f"RETRIEVE_{key.upper().replace('.', '__')}", str(QUERY_KEYS[key]))
    assert answer() != before


def test_depth_limits_what_a_leg_is_asked_for(index: Path, retrieve: Program, monkeypatch) -> None:
    def rank() -> int | None:
        [best] = retrieve("query", "volumes", "-k", 1, "--json").json["results"]
        return best["source_scores"]["bm25"]["rank"]

    assert rank() == 2
    monkeypatch.setenv("RETRIEVE_SEARCH__DEPTH", "1")
    assert rank() is None


def test_the_constant_of_reciprocal_ranks(index: Path, retrieve: Program, monkeypatch) -> None:
    monkeypatch.setenv("RETRIEVE_FUSION__METHOD", "rrf")
    scores = []
    for k in ("60", "5"):
        monkeypatch.setenv("RETRIEVE_FUSION__RRF_K", k)
        scores.append(retrieve("query", "brain", "--json").json["results"][0]["score"])
    assert scores == pytest.approx([2 / 61, 2 / 6])


def test_the_share_that_may_fail(tmp_path: Path, retrieve: Program, monkeypatch) -> None:
    path = tmp_path / "half.jsonl"
    path.write_text('{"id": "a", "name": "fine"}\nbroken\n')
    assert retrieve("build", "--catalog", path, "--json").json["status"] == "failed"
    monkeypatch.setenv("RETRIEVE_BUILD__MAX_FAIL", "0.5")
    assert retrieve("build", "--catalog", path, "--json").json["status"] == "partial"


def test_a_title_weighs_in_documents(tmp_path: Path, retrieve: Program, monkeypatch) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "x.md").write_text("# Zebra\nhorses with stripes")
    generations = []
    for weight in ("2", "5"):
        monkeypatch.setenv("RETRIEVE_DOCS__NAME_WEIGHT", weight)
        generations.append(retrieve("build", "--docs-dir", tmp_path / "docs", "--json").json["generation"])
    assert generations[0] != generations[1]


def test_the_shape_of_a_graph(tmp_path: Path, retrieve: Program, monkeypatch) -> None:
    graph = {"encoder.kind": "hashed", "dense.index": "hnsw"}
    shapes = [{}, {"dense.hnsw_m": 4}, {"dense.hnsw_ef_construction": 8}]
    generations = [built(retrieve, tmp_path, str(at), **graph, **shape) for at, shape in enumerate(shapes)]
    assert len(set(generations)) == 3


def test_prefixes_change_the_vectors(tmp_path: Path, retrieve: Program, monkeypatch) -> None:
    monkeypatch.delenv("RETRIEVE_ENCODER__KIND")
    plain = built(retrieve, tmp_path, "plain")
    assert built(retrieve, tmp_path, "passage", **{"encoder.passage_prefix": "Represent: "}) != plain
    built(retrieve, tmp_path, "query", **{"encoder.query_prefix": "Represent the query: "})
    scores = [
        retrieve("query", "brain", "--mode", "dense", "--artifacts", tmp_path / name, "--json").json["results"][0][
            "score"
        ]
        for name in ("plain", "query")
    ]
    assert scores[0] != scores[1]


def test_the_cache_of_models_is_where_it_is_configured(tmp_path: Path, retrieve: Program, monkeypatch) -> None:
    monkeypatch.delenv("RETRIEVE_ENCODER__KIND")
    built(retrieve, tmp_path, "a", **{"models.cache_dir": str(tmp_path / "cache")})
    assert list((tmp_path / "cache").rglob("model.onnx"))
