"""Which retrievers answer: any subset of those that the index has, and an index of words alone."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from program.asking import Batch, Configure, answered, indexed, refused
from samples import TOOLS, Program
from splade_models import save_masked

Stdin = Callable[[str], None]
QUESTION = "brain volumes and images"
SUBSETS = (("bm25",), ("dense",), ("splade",), ("bm25", "dense"), ("bm25", "splade"), ("dense", "splade"))


@pytest.fixture(scope="session")
def sparse_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small SPLADE model."""
    return save_masked(tmp_path_factory.mktemp("sparse") / "model")


@pytest.fixture
def three(catalog: Path, retrieve: Program, sparse_model: Path, configure: Configure) -> Path:
    """An index with all three built-in retrievers, at the default place."""
    configure("splade", model=sparse_model)
    configure("models", cache_dir=sparse_model.parent / "cache")
    assert retrieve("build", "--catalog", catalog).code == 0
    return Path("artifacts").resolve()


@pytest.fixture
def lexical(retrieve: Program, configure: Configure, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The catalog of an index of words alone, at the default place, where no encoder could be made."""
    configure("dense", enabled="false")
    configure("encoder", kind="auto", model="no/such-model")
    for made in ("encoders.encoder_to_build", "encoders.encoder_to_query", "parts.encoder_to_build"):
        monkeypatch.setattr(f"retrieve_cli.assemble.{made}", lambda *_: pytest.fail("an encoder was made"))
    return indexed(retrieve, TOOLS)


def plain(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer without what differs from one run to the next."""
    return {key: value for key, value in answer.items() if key not in ("timings_ms", "query_id")}


def answer(retrieve: Program, *words: object) -> dict[str, Any]:
    return plain(answered(retrieve, *words))


def files(artifacts: Path = Path("artifacts")) -> dict[str, bytes]:
    """The live generation, to the byte."""
    folder = artifacts / "generations" / (artifacts / "current").read_text().strip()
    names = [path for path in folder.iterdir() if path.name != "manifest.json"]
    return {"id": folder.name.encode(), **{path.name: path.read_bytes() for path in names}}


# ----------------------------------------------------------------------------------------------- subsets


@pytest.mark.parametrize("subset", SUBSETS, ids=",".join)
def test_only_the_retrievers_that_are_named_answer(
    three: Path, retrieve: Program, configure: Configure, batch: Batch, subset: tuple[str, ...]
) -> None:
    found = answer(retrieve, QUESTION, "--retrievers", ",".join(subset))
    assert found["strategies_used"] == list(subset)
    assert {name for result in found["results"] for name in result["source_scores"]} == set(subset)
    assert list(map(plain, batch([{"query": QUESTION, "retrievers": subset}]))) == [found]
    configure("search", retrievers=json.dumps(subset))
    assert answer(retrieve, QUESTION) == found


def test_the_lines_of_a_batch_may_name_different_retrievers_and_each_is_answered_as_if_alone(
    three: Path, batch: Batch
) -> None:
    lines: list[dict[str, Any]] = [
        {"id": f"{subset} {text}", "query": text, **({"retrievers": subset} if subset else {})}
        for text in (QUESTION, "affine transforms")
        for subset in (*SUBSETS, ("splade", "bm25"), ())
    ]
    together = batch(lines)
    assert [each["query_id"] for each in together] == [line["id"] for line in lines]
    for line, found in zip(lines, together, strict=True):
        assert list(map(plain, batch([line]))) == [plain(found)]


def test_a_line_chooses_among_the_retrievers_of_the_command(three: Path, batch: Batch) -> None:
    answers = batch([{"query": "brain", "retrievers": ["dense"]}, "brain"], "--retrievers", "bm25,dense")
    assert [each["strategies_used"] for each in answers] == [["dense"], ["bm25", "dense"]]
    (failed,) = batch([{"query": "brain", "retrievers": ["splade"]}], "--retrievers", "bm25,dense", code=8)
    said = "line 1 of stdin asks for 'splade', which is not allowed by --retrievers"
    assert said in failed["error"]["message"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"retrievers": ["bm26"]}, "unknown retriever 'bm26' of item 1 of `retrievers` of line 1 of stdin"),
        ({"retrievers": []}, "`retrievers` of line 1 of stdin is empty"),
        ({"retrievers": "bm25"}, "`retrievers` of line 1 of stdin must be a list"),
        ({"retrievers": [3]}, "item 1 of `retrievers` of line 1 of stdin must be a string"),
        ({"retriever": ["bm25"]}, "line 1 of stdin has an unknown key 'retriever'"),
    ],
)
def test_a_line_whose_retrievers_are_not_understood_is_refused(
    index: Path, retrieve: Program, stdin: Stdin, line: dict[str, Any], said: str
) -> None:
    stdin(json.dumps({"query": "brain", **line}))
    assert said in refused(retrieve, "query", "-", code=8)


@pytest.mark.parametrize(("given", "near"), [("bm26", "bm25"), ("bm25,dens", "dense"), ("Splade", "splade")])
def test_a_name_that_is_unknown_is_refused_with_the_nearest_that_is_not(
    index: Path, retrieve: Program, configure: Configure, stdin: Stdin, given: str, near: str
) -> None:
    hint = f"did you mean `{near}`?"
    assert hint in refused(retrieve, "query", "brain", "--retrievers", given)
    stdin(json.dumps({"query": "brain", "retrievers": given.split(",")}))
    assert hint in refused(retrieve, "query", "-", code=8)
    configure("search", retrievers=json.dumps(given.split(",")))
    assert hint in refused(retrieve, "query", "brain")


def test_a_retriever_that_the_index_lacks_is_unavailable_and_the_hint_says_which_it_has(
    index: Path, retrieve: Program, stdin: Stdin, batch: Batch
) -> None:
    for words in (("--retrievers", "splade"), ("--retrievers", "bm25,splade"), ("--mode", "splade")):
        err = refused(retrieve, "query", "brain", *words, code=6)
        assert "this index has no splade retriever" in err
        assert "hint: it has bm25, dense" in err
    first, second = batch([{"query": "brain", "retrievers": ["splade"]}, "brain"], code=8)
    assert (first["error"]["code"], len(second["results"]) > 0) == (6, True)
    stdin("brain")
    assert retrieve("query", "-", "--retrievers", "splade").code == 6


def test_a_mode_of_the_command_line_wins_over_retrievers_of_the_configuration(
    three: Path, retrieve: Program, configure: Configure
) -> None:
    Path("config.yaml").write_text("search: {retrievers: [bm25], mode: dense}\n")
    assert answer(retrieve, "brain")["strategies_used"] == ["bm25"]
    assert answer(retrieve, "brain", "--mode", "splade")["strategies_used"] == ["splade"]
    assert len(answer(retrieve, "brain", "--mode", "hybrid")["strategies_used"]) == 3
    both = answer(retrieve, "brain", "--mode", "splade", "--retrievers", "dense,bm25")
    assert both["strategies_used"] == ["bm25", "dense"]
    configure("search", mode="splade")
    assert answer(retrieve, "brain")["strategies_used"] == ["splade"]


# --------------------------------------------------------------------------------------------- of words alone


def test_an_index_of_words_alone_needs_no_encoder(lexical: Path, retrieve: Program) -> None:
    manifest = json.loads(next(Path("artifacts/generations").glob("*/manifest.json")).read_text())
    assert "dense.faiss" not in manifest["files"]
    assert not {"encoder", "dense", "tokens"} & manifest["recipe"].keys()
    found = answer(retrieve, "brain scans")
    assert (found["strategies_used"], found["strategies_skipped"]) == (["bm25"], {})
    assert found["results"][0]["doc_id"] == "brain"
    assert answer(retrieve, "brain scans", "--mode", "bm25")["results"] == found["results"]
    assert "this index has no dense retriever" in refused(retrieve, "query", "brain", "--mode", "dense", code=6)


def test_an_index_with_vectors_becomes_one_of_words_and_back_by_a_sync(
    index: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files()
    monkeypatch.setenv("RETRIEVE_DENSE__ENABLED", "false")
    assert retrieve("sync", "--json").json["status"] == "published"
    assert "dense.faiss" not in files()
    monkeypatch.delenv("RETRIEVE_DENSE__ENABLED")
    assert retrieve("sync", "--json").json["status"] == "published"
    assert files() == before


# ------------------------------------------------------------------------------------------------- weights


def test_weights_are_one_mapping(index: Path, retrieve: Program) -> None:
    def asked(**fusion: object) -> dict[str, Any]:
        Path("config.yaml").write_text(yaml.safe_dump({"fusion": fusion}))
        return answer(retrieve, QUESTION)

    new = asked(weights={"dense": 0.2, "bm25": 0.8})
    assert new["results"] != asked()["results"]
    assert new["results"][0]["source_scores"]["bm25"]["weight"] == 0.8
    assert asked(weights={"bm25": 0.35}) == asked()
