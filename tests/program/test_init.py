"""`retrieve init` writes a configuration that works, and each preset has the numbers of its seed or encoder."""

import json
from pathlib import Path

import pytest
from models.remote.servers import embedder, running
from program.asking import Configure, answered, refused
from samples import TOOLS, Program, write_catalog

from retrieve_cli.config.loading import load
from retrieve_cli.config.starters import presets
from retrieve_cli.evaluation.judgments import read_gold

VALUES = {
    "imaging": {
        "search.k": 12, "broadening.min_results": 5, "broadening.max_retries": 2, "encoder.timeout_s": 20.0,
        "encoder.query_prefix": "Represent the query for retrieving relevant software: ",
        "encoder.passage_prefix": "Represent the software for retrieval: ",
        "rerank.model": "BAAI/bge-reranker-v2-m3", "dense.index": "flat", "log.min_candidates": 8,
        "fusion.weights": {"dense": 1.0, "bm25": 0.0},
    },
    "biocortex": {"search.depth": 50, "search.k": 15, "expansion.depth": 2, "rerank.prompt": "pick", "rerank.keep": 15,
                  "expansion.before_rerank": True, "llm.max_records": 200},
    "rag": {"search.similarity_top_k": 20, "search.grade": 0.7, "rerank.keep": 5, "rerank.min_score": 0.5,
            "encoder.dimensions": 1024, "dense.index": "hnsw", "broadening.max_retries": 0},
    "cities": {"gating.top_groups": 10, "gating.global_candidates": 300, "rerank.depth": 200, "rerank.keep": 40,
               "rerank.backend": "none", "search.max_also": 2, "freshness.policy": "fail",
               "broadening.max_retries": 0},
    "modular": {"chunking.size": 300, "chunking.overlap": 50, "fusion.method": "rrf", "fusion.rrf_k": 60.0,
                "fusion.weights": {"bm25": 0.3, "splade": 0.3, "dense": 0.4}, "splade.min_weight": 0.01,
                "dense.hnsw_m": 16, "dense.hnsw_ef_search": 50, "search.depth": 100, "search.k": 10,
                "rerank.interpolate": 1.0, "broadening.max_retries": 0},
    "multilingual-e5": {"encoder.model": "intfloat/multilingual-e5-small", "encoder.query_prefix": "query: ",
                        "encoder.passage_prefix": "passage: "},
    "bge-m3": {"encoder.model": "BAAI/bge-m3", "encoder.query_prefix": "", "encoder.passage_prefix": ""},
}  # fmt: skip


def test_there_is_a_preset_for_each_seed_and_for_multilingual_encoders() -> None:
    assert set(presets()) == set(VALUES)


@pytest.mark.parametrize("preset", VALUES)
def test_a_preset_sets_the_numbers_of_its_seed(preset: str, retrieve: Program) -> None:
    assert retrieve("init", "--preset", preset).code == 0
    settings = load(Path("config.yaml"), {})
    for key, value in VALUES[preset].items():
        section, _, name = key.partition(".")
        assert getattr(getattr(settings, section), name) == value, key


@pytest.mark.parametrize("preset", [None, *VALUES])
def test_an_index_is_built_and_answers_under_every_preset(
    preset: str | None, retrieve: Program, configure: Configure
) -> None:
    configure("encoder", kind="hashed", dimensions="null")  # for the servers and models that presets name
    configure("splade", model="null")
    write_catalog(Path("tools.jsonl"), TOOLS)
    for tool in TOOLS:
        folder = Path("documents") / tool["id"]
        folder.mkdir(parents=True)
        (folder / "report.md").write_text(f"# {tool['name']}\n\n{tool['description']}\n")
    assert retrieve("init", *(["--preset", preset] if preset else [])).code == 0
    assert retrieve("build").code == 0
    configure("rerank", backend="auto", min_score="null")  # for the servers and models that are not here
    configure("search", grade="null")
    found = answered(retrieve, "segments lungs and lobes in chest CT")
    assert found["results"][0]["doc_id"] in ("lungs", "lungs/report.md")
    if load(Path("config.yaml"), {}).fusion.weights.get("bm25") == 0:
        assert (found["strategies_used"], found["strategies_skipped"]) == (["dense"], {}), "what weighs 0 is not asked"


def test_a_file_that_exists_is_replaced_only_when_told_to(retrieve: Program) -> None:
    Path("config.yaml").write_text("search: {k: 3}\n")
    assert "--force" in refused(retrieve, "init")
    assert Path("config.yaml").read_text() == "search: {k: 3}\n"
    assert retrieve("init", "--force").code == 0
    assert "k: 10" in Path("config.yaml").read_text()


def test_the_sources_are_those_that_are_there(retrieve: Program) -> None:
    assert retrieve("init").code == 0
    assert load(Path("config.yaml"), {}).sources.list == [], "nothing is there"
    Path("docs: new").mkdir()
    Path("docs: new/a.md").write_text("# Lungs\n\nThey breathe.\n")
    Path("products.csv").write_text("id,name,description\n1,gzip,compresses files\n")
    Path("gold.jsonl").write_text('{"query": "gzip", "relevant": ["1"]}\n')
    write_catalog(Path("tools.jsonl"), TOOLS)
    assert retrieve("init", "--force", "--preset", "imaging").code == 0
    listed = load(Path("config.yaml"), {}).sources.list
    assert [str(source.path) for source in listed] == ["tools.jsonl", "products.csv", "docs: new"]
    Path("config.yaml").unlink()
    assert retrieve("build", "docs: new").code == 0
    assert retrieve("init").code == 0
    synced = retrieve("sync")
    assert (synced.code, synced.out.split()[0]) == (0, "unchanged"), "an index keeps its sources"


def test_another_file_may_be_named_and_json_says_which(retrieve: Program) -> None:
    done = retrieve("init", "--config", "other.yaml", "--preset", "rag", "--json")
    assert json.loads(done.out) == {
        "schema_version": 1,
        "path": "other.yaml",
        "preset": "rag",
        "files": ["other.yaml"],
    }
    assert load(Path("other.yaml"), {}).search.k == 5


def test_an_unknown_preset_is_refused_with_the_nearest_one(retrieve: Program) -> None:
    assert "did you mean `cities`?" in refused(retrieve, "init", "--preset", "citys")
    assert not Path("config.yaml").exists()


def test_the_preset_of_design_e_starts_where_none_of_its_services_is_and_gains_them_later(
    retrieve: Program, configure: Configure
) -> None:
    """Design E: "All modules are loosely coupled": a service that is missing is a stage that is skipped."""
    Path("documents").mkdir()
    Path("documents/mice.md").write_text("# Sleep\n\nIntroduction\n\nMice sleep.\n\nMethods\n\nTwelve mice.\n")
    assert retrieve("init", "--preset", "modular").code == 0
    for server in running():
        server.respond = embedder(dim=8)
        configure("encoder", kind="remote", base_url="http://127.0.0.1:9/v1", retries=0, dimensions=8)
        done = retrieve("build")
        assert done.code == 0
        assert "note: dense is skipped: http://127.0.0.1:9/v1/embeddings gave no answer" in done.err
        assert "note: splade is skipped: The model naver/splade-v3 is not on this machine" in done.err
        found = answered(retrieve, "twelve mice", "--chunks")
        assert found["results"][0]["section"] == "Methods"
        assert list(found["strategies_skipped"]) == ["cross_encoder"]
        configure("encoder", base_url=server.url)
        assert retrieve("sync").code == 0
        assert answered(retrieve, "twelve mice")["strategies_used"] == ["bm25", "dense"]
        configure("encoder", base_url="http://127.0.0.1:9/v1")
        Path("documents/more.md").write_text("# More\n\nThirteen mice.\n")
        assert "gave no answer" in refused(retrieve, "sync", code=6), "no index loses the vectors that it has"
        assert answered(retrieve, "twelve mice", "--mode", "bm25")["total_results"] == 1


def test_a_sample_is_a_catalog_and_judged_queries_that_can_be_used_at_once(retrieve: Program) -> None:
    done = retrieve("init", "--sample")
    assert done.out == "wrote config.yaml, tools.jsonl, gold.jsonl\n"
    ids = {json.loads(line)["id"] for line in Path("tools.jsonl").read_text("utf-8").splitlines()}
    topics = read_gold(Path("gold.jsonl"))
    assert len(topics) > 100
    assert {name for topic in topics for name in topic.grades} <= ids
    Path("config.yaml").unlink()
    assert "tools.jsonl already exists" in retrieve("init", "--sample").err
    assert not Path("config.yaml").exists()
