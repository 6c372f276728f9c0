"""config.yaml, the environment, the flags; and that every key changes something."""

import json
from pathlib import Path

import pytest
import yaml
from program.asking import Configure
from samples import ROOT, TOOLS, Program, write_catalog

from retrieve_cli.config import loading
from retrieve_cli.config.settings import Settings
from retrieve_cli.errors import UsageError
from retrieve_cli.frozen import asdict
from retrieve_cli.storage.manifest import Manifest


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "some.yaml"
    path.write_text(text, "utf-8")
    return path


def test_the_file_of_the_repository_shows_every_key_at_its_default() -> None:
    shown = yaml.safe_load((ROOT / "config.yaml").read_text("utf-8"))
    every = {name: keys for name, keys in asdict(Settings()).items() if name != "withheld"}
    assert {name: set(keys) for name, keys in shown.items()} == {name: set(keys) for name, keys in every.items()}
    assert loading.load(ROOT / "config.yaml", {}) == Settings()


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
        ("search: {k: 0}", "at least 1", "config.yaml"),
        ("chunking: {rules: [{match: a, sise: 40}]}", "`sise` in entry 1 of `chunking.rules`", "size"),
        ("chunking: {rules: [{match: a, markers: drugs}]}", "'drugs'", "drug_label"),
        ("bm25: 3", "not a mapping", "bm25:"),
        ("a: [", "not valid YAML", "fix"),
        ("catalog: {fields: {a: {tu: x}}}", "`catalog.fields.a.tu`", "to"),
        ("catalog: {fields: {a: {to: b, weight: 2}, b: 3}}", "'b' twice: by 'a' (2) and 'b' (3)", "one weight"),
    ],
)
def test_what_is_not_known_is_refused_with_the_nearest_that_is(
    tmp_path: Path, text: str, message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        loading.load(written(tmp_path, text), {})
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_an_unknown_variable_and_a_file_that_is_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="RETRIEVE_SEARCH__KK"):
        loading.load(None, {"RETRIEVE_SEARCH__KK": "1"})
    with pytest.raises(UsageError, match=r"none\.yaml"):
        loading.load(tmp_path / "none.yaml", {})


TEXT = "First sentence about lungs. Second one on cells in microscopes. Third names brains and scans. " * 12
SECTIONS = "# Lungs\n\nOne sentence. Another one.\n\n## Cells\n\nThey are counted.\n\n## Brains\n\nRegistered.\n\n" * 4
GERMAN = "Der Apparat misst z. B. die Lunge bzw. das Herz am 3. Mai um ca. 9 Uhr. Er zeigt u. a. Schnitte. " * 8
RECORDS = [
    *TOOLS,
    {"id": "long", "name": "Long", "description": TEXT, "summary": "unusual zebra words"},
    {"id": "running", "name": "the Runner", "description": "It was running the brains of a scanner on and on."},
    {"id": "sections", "name": "Sections", "description": SECTIONS},
    {"id": "german", "name": "German", "description": GERMAN},
]

Keys = dict[str, object]
CUT = ("chunks.jsonl", "offsets.pkl", "dense.faiss")
ALL = (*CUT, "records.jsonl", "bm25.pkl")
SHORT: Keys = {"chunking.size": 48}
MODEL: Keys = {"encoder.kind": "onnx"}

BUILD_KEYS: dict[str, tuple[object, tuple[str, ...], Keys]] = {
    "catalog.fields": ({"summary": 1.0}, ALL, {}),
    "chunking.strategy": ("section", CUT, SHORT),
    "chunking.size": (40, CUT, {}),
    "chunking.overlap": (12, CUT, SHORT),
    "chunking.coherence": (True, CUT, SHORT),
    "chunking.rules": ([{"match": "*.jsonl", "strategy": "section", "size": 40}], CUT, SHORT),
    "encoder.kind": ("onnx", (*CUT, "tokens.pkl"), {}),
    "encoder.dim": (64, ("dense.faiss",), {}),
    "bm25.unit": ("chunk", ("bm25.pkl",), {}),
    "bm25.stemming": ("none", ("bm25.pkl",), {}),
    "bm25.stop_words": ("none", ("bm25.pkl",), {}),
    "bm25.languages": ({"*": "none"}, ("bm25.pkl",), {}),
    "dense.enabled": (False, ("dense.faiss",), {}),
}
"""Keys that change files of the index of the catalog above: another value than the default, the files that it changes,
and the keys under which it does so."""

QUERY_KEYS = {
    "bm25.variant": "okapi",
    "bm25.k1": 0.1,
    "search.mode": "bm25",
    "search.k": 2,
    "fusion.method": "rrf",
    "fusion.normalization": "minmax",
    "fusion.weights": {"dense": 0.1, "bm25": 0.9},
    "search.retrievers": ["dense"],
    "search.grade": 0.2,
    "search.max_distance": 0.8,
    "search.min_score": 0.0,
    "diversity.per_group": 1,
    "diversity.mmr": 0.3,
    "budget.max_chunks": 2,
    "budget.max_tokens": 20,
}
"""Keys that change the answer from one and the same index, each with another value than its default."""


def built(retrieve: Program, place: Path, keys: Keys, *source: object) -> dict[str, str]:
    """The digest of each file of an index that is built with the given keys in `place`."""
    place.mkdir()
    sections: dict[str, Keys] = {}
    for key, value in keys.items():
        section, _, inner = key.partition(".")
        sections.setdefault(section, {})[inner] = value
    config = place / "config.yaml"
    config.write_text(yaml.safe_dump(sections))
    what = source or ("--catalog", write_catalog(place / "all.jsonl", RECORDS))
    done = retrieve("build", *what, "--artifacts", place / "artifacts", "--config", config, "--json")
    assert done.code == 0, done.err
    manifest = Manifest.read(place / "artifacts" / "generations" / done.json["generation"] / "manifest.json")
    return {name: file.sha1 for name, file in manifest.files.items()}


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    """Files that are not the same in both, those included that only one has."""
    return {name for name in before | after if before.get(name) != after.get(name)}


@pytest.mark.parametrize("key", BUILD_KEYS)
def test_a_key_of_the_build_changes_the_files_it_is_about_and_no_other(
    tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.delenv("RETRIEVE_ENCODER__KIND")
    value, files, under = BUILD_KEYS[key]
    base = {"encoder.kind": "hashed", **under}
    before, after = built(retrieve, tmp_path / "a", base), built(retrieve, tmp_path / "b", {**base, key: value})
    assert changed(before, after) == set(files)


@pytest.mark.parametrize("key", QUERY_KEYS)
def test_a_key_of_the_search_changes_the_answer(index: Path, retrieve: Program, monkeypatch, key: str) -> None:
    def answer() -> list[tuple[str, float]]:
        found = retrieve("query", "brain volumes and images", "--json").json["results"]
        return [(result["id"], result["score"]) for result in found]

    before = answer()
    monkeypatch.setenv(f"RETRIEVE_{key.upper().replace('.', '__')}", json.dumps(QUERY_KEYS[key]))
    assert answer() != before


def test_depth_limits_what_a_leg_is_asked_for(index: Path, retrieve: Program, configure: Configure) -> None:
    def rank() -> int | None:
        [best] = retrieve("query", "volumes", "-k", 1, "--json").json["results"]
        return best["source_scores"]["bm25"]["rank"]

    assert rank() == 2
    configure("search", depth=1)
    assert rank() is None


def test_a_title_weighs_in_documents(tmp_path: Path, retrieve: Program) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "x.md").write_text("# Zebra\nhorses with stripes")
    docs = ("--docs-dir", tmp_path / "docs")
    two, five = (built(retrieve, tmp_path / str(at), {"docs.name_weight": at}, *docs) for at in (2, 5))
    assert "bm25.pkl" in changed(two, five)
    assert "dense.faiss" not in changed(two, five)


def test_the_prefix_of_queries_changes_the_scores(tmp_path: Path, retrieve: Program, configure: Configure) -> None:
    configure("encoder", kind="onnx")
    prefix: Keys = {"encoder.query_prefix": "Represent the query: "}
    assert changed(built(retrieve, tmp_path / "a", {}), built(retrieve, tmp_path / "b", prefix)) == set()
    words = ("query", "brain", "--mode", "dense", "--json")
    plain, prefixed = (
        retrieve(*words, "--artifacts", tmp_path / name / "artifacts", "--config", tmp_path / name / "config.yaml")
        for name in ("a", "b")
    )
    assert plain.json["results"][0]["score"] != prefixed.json["results"][0]["score"]
