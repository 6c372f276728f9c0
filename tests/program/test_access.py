"""A record that a request may not see takes no part in its answer: an index with the records of others and one without
them say the same but for numbers, in every stage and every format."""

import io
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from profiles import examples
from program.asking import Configure, answered
from samples import Program, write_catalog
from splade_models import save_masked
from tenant_samples import (
    CONFIG,
    EDGES,
    ROWS,
    TEXT,
    Row,
    Spelling,
    foreign_words,
    indexes,
    own,
    owns,
    words_of,
    write_sources,
)

from retrieve_cli.cli.main import main


@dataclass(frozen=True)
class Way:
    """A command line for tenant acme, the configuration that it runs under, and its standard input."""

    words: tuple[str, ...]
    keys: Mapping[str, str] = field(default_factory=dict)
    stdin: str = ""

    def __str__(self) -> str:
        return " ".join([*self.words, *(f"{key}={value}" for key, value in self.keys.items())])


def query(text: str, *words: str, stdin: str = "", **keys: str) -> Way:
    """All that the best chunks lead to, of all retrievers unless `words` say others."""
    asked = ("query", text, "--tenant", "acme", "--expand", "--with-dependencies", "-k", "50")
    return Way((*asked, *words), keys, stdin)


def why(text: str, name: str, *words: str, **keys: str) -> Way:
    return Way(("inspect", "why", text, name, "--tenant", "acme", *words), keys)


Told = tuple[int, str, str]
"""The exit code of a run, and what it printed on stdout and on stderr."""
FORMATS = ["text", "table", "json", "jsonl", "csv", "md", "trec", "prompt", "prompt-table"]
FILTERS = ["license=MIT", "dose>=3", "zqfild=1", "!topics=zqsecret", "tenant=*"]
EMPTY_FILTERS = ["license=nothing", "zqfield=1", "shade>=1", "name=zq*", "section=zqsecret"]
BATCH = json.dumps({"id": "x", "query": TEXT, "filters": ["license=MIT"]}) + f"\n{TEXT} [EXCLUDE:a1]\n"
WAYS = [
    *(query(TEXT, "--format", name) for name in FORMATS),
    *(query(TEXT, "--filter", condition, "--json") for condition in FILTERS),
    *(query(TEXT, "--filter", condition) for condition in EMPTY_FILTERS),
    *(query(TEXT, "--filter", condition) for condition in ("zqfield>=1", "zqfild=1")),
    *(query(TEXT, "--boost", boost, "--json") for boost in ("license=MIT:2", "topics=zq*:2", "zqfield=1:2")),
    *(query(TEXT, "--doc-id", name, "--json") for name in ("a1", "zq")),
    *(query(f"{TEXT} [{tag}]", "--json") for tag in ("EXCLUDE:a1", "EXCLUDE:zq1|zqTool 1", "INCLUDE:Reader")),
    query(TEXT, "--list"),
    query(TEXT, "--explain"),
    query(TEXT, "--json", EXPANSION__DEPTH="5"),
    query(TEXT, "--explain", "-k", "1", EXPANSION__SEEDS="1", EXPANSION__DEPTH="4"),
    query(TEXT, "--explain", EXPANSION__MAX_NODES="3"),
    query(TEXT, "--json", EXPANSION__DOMAIN_SHARE="1"),
    query(TEXT, "--json", EXPANSION__DOMAIN_SHARE="0.3"),
    query(TEXT, "--json", EXPANSION__WEIGHTS="{required_by: 1, same_domain: 1, shares_entity: 1}"),
    query(TEXT, "--json", EXPANSION__KINDS="[required_by, same_domain, made_of]"),
    query(TEXT, "--json", "--max-tokens", "25"),
    query(TEXT, "--chunks", "--context", "2", "--json"),
    query(TEXT, "--also", "store tables", "--json"),
    query(TEXT, "-v"),
    query(TEXT, "--min-score", "0.9"),
    query(f"{TEXT} zebra quokka", "--min-score", "0.4", "--explain", "--json", BROADENING__MAX_RETRIES="3"),
    query(TEXT, "--json", SEARCH__GRADE="0.5"),
    query(TEXT, "--json", SEARCH__REQUIRE_TENANT="true"),
    *(query(TEXT, "--mode", mode, "--json") for mode in ("dense", "bm25")),
    *(
        query(TEXT, "--json", *words, **keys)
        for words in ((), ("--filter", "license=MIT"), ("--route",), ("--also", "store tables"))
        for keys in (
            {"FUSION__METHOD": "rrf"},
            *({"FUSION__NORMALIZATION": name} for name in ("zscore_candidates", "minmax")),
        )
    ),
    query(TEXT, "--json", DIVERSITY__PER_GROUP="1"),
    query(TEXT, "--json", DIVERSITY__PER_GROUP="1", GATING__FIELD="zqfield"),
    query(TEXT, "--json", DIVERSITY__MMR="0.4"),
    query(TEXT, "--route", "--explain", GATING__TOP_GROUPS="1"),
    query(TEXT, "--route", "--json", GATING__TOP_GROUPS="1", GATING__PER_GROUP="1"),
    query(TEXT, "--route", "--json", GATING__TOP_GROUPS="1", GATING__FIELD="topics"),
    query(TEXT, "--route", "--json", GATING__FIELD="zqfield"),
    query(TEXT, "--route", "--json", GATING__FIELD="zqfeld"),
    query(TEXT, "--filter", "license=MIT", "--explain"),
    query(TEXT, "--filter", "license=GPL-3.0", "--filter", "id=a*", "--explain"),
    query(TEXT, "--boost", "license=MIT:2", "--explain", "--also", "store tables", "--route", GATING__TOP_GROUPS="1"),
    query(TEXT, "--json", BOOST__ZQFIELD="{1: 2}"),
    query(TEXT, "--explain", SEARCH__GRADE="0.9", SEARCH__MIN_RESULTS="3"),
    query(TEXT, "--json", "--also", "store tables", "--route", GATING__TOP_GROUPS="1", GATING__PER_GROUP="1"),
    query(TEXT, "--doc-id", "zq1"),
    query(f"{TEXT} [EXCLUDE:a1]", "--filter", "license=nothing"),
    query(f"{TEXT} [EXCLUDE:Reader]", "--explain"),
    query(f"{TEXT} [INCLUDE:zq1|a1|zqTool 2]", "--explain"),
    query(f"{TEXT} [INCLUDE:zq1]"),
    query(f"{TEXT} [FILTER:zqfield=1]"),
    query("-", "--json", stdin=BATCH),
    query("-", "--explain", stdin=BATCH),
    *(why(TEXT, name) for name in ("a0", "a1#0", "a77", "zq1", "zq1#0", "zq", "zqTool 1")),
    *(why(TEXT, name, "--json") for name in ("a0", "zq1")),
    why(TEXT, "a1", "--filter", "license=MIT"),
    why(f"{TEXT} [EXCLUDE:a1]", "a1"),
    why(TEXT, "a1", "--filter", "zqfield=1"),
    why(TEXT, "a1", GATING__ENABLED="true", GATING__TOP_GROUPS="1"),
    why(TEXT, "a1", GATING__ENABLED="true", GATING__FIELD="zqfield"),
]


@contextmanager
def standing_in(folder: Path, keys: Mapping[str, str], stdin: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("RETRIEVE_")]:
            patch.delenv(name)
        for key, value in {"TRUST": "1", **keys}.items():
            patch.setenv(f"RETRIEVE_{key}", value)
        patch.chdir(folder)
        patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8"))
        yield


def run(folder: Path, way: Way) -> Told:
    """The exit code and all that is printed in a folder, names of generations and times aside."""
    out, err = io.StringIO(), io.StringIO()
    with standing_in(folder, way.keys, way.stdin), redirect_stdout(out), redirect_stderr(err):
        code = int(main(way.words))
    current = folder / "artifacts" / "current"
    generation = current.read_text().strip() if current.exists() else "none"
    told = [text.getvalue().replace(generation, "G" * 12) for text in (out, err)]
    times = re.compile(r'("timings_ms": ?\{)[^}]*|("?total_ms"?[=:] ?)[0-9.]+')
    return code, *(times.sub(r"\1\2", text) for text in told)


def build(
    folder: Path, rows: Sequence[Row], edges: Sequence[Row], *, foreign: bool, spell: Spelling = dict, **keys: Any
) -> Path:
    """An index of the records, or of the tenant's own alone."""
    write_sources(folder, rows, edges, foreign=foreign, spell=spell, **keys)
    code, _, err = run(folder, Way(("build", "--catalog", "tools.jsonl")))
    assert code == 0, err
    return folder


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folder of an index of all records, and that of one of the tenant's own."""
    folder = tmp_path_factory.mktemp("access")
    return build(folder / "all", ROWS, EDGES, foreign=True), build(folder / "own", ROWS, EDGES, foreign=False)


def told_alike(folders: Sequence[Path], way: Way, *, cut: bool = False) -> Told:
    """Return what a run prints: the same words with the records of others and without them, and nothing of others but
    what was asked, and what the tenant's records say of them. If scores `cut` the answer, words may differ."""
    with_others, without = (run(folder, way) for folder in folders)
    assert with_others[0] == without[0], way
    assert cut or words_of("\n".join(with_others[1:])) == words_of("\n".join(without[1:])), way
    text = re.sub(r'"(requires_tool|compatible_with)": ?\[[^]]*\]', "", "\n".join(map(str, with_others)))
    asked = " ".join([*way.words, *way.keys, *way.keys.values()])
    assert foreign_words(text) <= foreign_words(asked)
    return with_others


# ------------------------------------------------------------------------------------------------------ the rule


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_an_index_without_the_records_of_others_says_the_same(both: tuple[Path, Path], way: Way) -> None:
    told_alike(both, way, cut="minmax" in str(way))


LAYOUTS: Mapping[str, Row] = {
    "chunks": {"chunking": {"size": 24}, "bm25": {"unit": "chunk"}},
    **{variant: {"bm25": {"variant": variant}} for variant in ("robertson", "atire", "okapi")},
    "hnsw": {"dense": {"index": "hnsw"}},
    "splade": {"splade": {"model": "tiny-splade"}},
    "maxsim": {"encoder": {"kind": "auto"}, "chunking": {"size": 24}},
}
"""Ways in which an index can be made, each with its own numbers over its rows."""
REPEATED: list[Row] = [
    {**row, "id": f"{row['id']}-{at}", "description": f"{row['description']} {more}"}
    for at, more in enumerate(("Opens files. " * 5, "Single threads.", "Matrices of cells. Cells. " * 3))
    for row in ROWS
]
"""Records of which some have several chunks, in neighbouring rows of both and of one tenant."""


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_rule_holds_for_every_kind_of_index(tmp_path: Path, layout: str) -> None:
    if layout == "splade":
        save_masked(tmp_path / "tiny-splade")
        LAYOUTS["splade"]["splade"]["model"] = str(tmp_path / "tiny-splade")
    keys = {"graph": {"files": []}, **LAYOUTS[layout]}
    folders = [build(tmp_path / str(foreign), REPEATED, [], foreign=foreign, **keys) for foreign in (True, False)]
    asked = [query(TEXT, "--json", "--explain"), query("cells [EXCLUDE:a1-1]", "--chunks", "--json")]
    asked += [query(f"{TEXT} threads", "--filter", "license=MIT", "--json"), query(TEXT, "--route", "--also", "cells")]
    cut = layout in ("robertson", "okapi")  # a word that most rows have counts nothing
    pipelines = [json.loads(told_alike(folders, way, cut=cut)[1])["pipeline"] for way in asked[:3]]
    told_alike(folders, asked[3], cut=cut)
    stage = {"splade": "splade@", "maxsim": "maxsim@"}.get(layout, "bm25@")
    assert all(stage in pipeline and "dense@" in pipeline for pipeline in pipelines)


def spelled(row: Row, key: str) -> Row:
    """The record with its tenant under another key."""
    return {**{name: value for name, value in row.items() if name != "tenant"}, key: row["tenant"]}


def mixed(row: Row) -> Row:
    """The tenant under one key, under the other, or under both."""
    keys = (("tenant",), ("tenant_id",), ("tenant", "tenant_id"))[sum(row["id"].encode()) % 3]
    return {**{name: value for name, value in row.items() if name != "tenant"}, **dict.fromkeys(keys, row["tenant"])}


def nested(row: Row) -> Row:
    """The tenant as a corpus of BEIR has it."""
    return {**spelled(row, "metadata"), "metadata": {"tenant_id": row["tenant"]}}


SPELLINGS: Mapping[str, tuple[Spelling, Row]] = {
    "tenant_id": (lambda row: spelled(row, "tenant_id"), {}),
    "mixed": (mixed, {}),
    "nested": (nested, {}),
    "configured": (lambda row: spelled(row, "owner"), {"catalog": {"fields": {"owner": {"to": "tenant"}}}}),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_rule_holds_however_the_tenant_is_spelled(tmp_path: Path, spelling: str) -> None:
    spell, keys = SPELLINGS[spelling]
    folders = [
        build(tmp_path / str(foreign), ROWS, EDGES, foreign=foreign, spell=spell, **keys) for foreign in (True, False)
    ]
    for way in WAYS[::6]:
        told_alike(folders, way)
    code, out, _ = run(folders[0], query(TEXT, "--list"))
    assert (code, {"a0", "a4"} <= set(out.split())) == (0, True)
    for key in ("tenant", "tenant_id"):  # a filter, which does not hide records
        told = run(folders[0], Way(("query", TEXT, "--filter", f"{key}=acme", "--list", "--no-expand", "-k", "50")))[1]
        assert set(told.split()) == {str(row["id"]) for row in ROWS if owns(row)}


@pytest.mark.parametrize(
    ("row", "keys"),
    [
        ({"tenant": "acme", "tenant_id": "beta"}, {}),
        ({"tenant": ["acme", "beta"], "tenant_id": "acme"}, {}),
        ({"tenant": "acme", "metadata": {"tenant_id": "beta"}}, {}),
        ({"tenant_id": "acme", "owner": "beta"}, {"catalog": {"fields": {"owner": {"to": "tenant"}}}}),
    ],
)
def test_a_record_whose_keys_name_different_tenants_is_rejected(tmp_path: Path, row: Row, keys: Row) -> None:
    unclear = {"id": "x", "name": "Unclear", "description": "Opens single cell matrices.", **row}
    rows = [json.dumps(each) for each in (unclear, own(1, "Stores tables."))]
    (tmp_path / "tools.jsonl").write_text("\n".join(rows))
    (tmp_path / "config.yaml").write_text(json.dumps({**CONFIG, **keys, "build": {"max_fail": 1.5}}))
    (tmp_path / "edges.jsonl").write_text("")
    code, _, err = run(tmp_path, Way(("build", "--catalog", "tools.jsonl")))
    assert code == 8
    assert "its tenant is not clear: `" in err
    for tenant in ("acme", "beta"):
        assert "x" not in run(tmp_path, Way(("query", TEXT, "--tenant", tenant, "--list")))[1].split()


def test_a_document_may_name_its_tenant_by_either_key_but_not_two(tmp_path: Path) -> None:
    for name, matter in (("one", "tenant_id: acme"), ("two", "tenant: acme"), ("three", "tenant: a\ntenant_id: b")):
        (tmp_path / f"{name}.md").write_text(f"---\n{matter}\n---\nOpens single cell matrices.\n")
    (tmp_path / "config.yaml").write_text(json.dumps({"encoder": {"kind": "hashed"}, "build": {"max_fail": 1.5}}))
    code, _, err = run(tmp_path, Way(("build", "--docs-dir", ".")))
    assert (code, "three.md:1: its tenant is not clear" in err) == (8, True)
    assert run(tmp_path, Way(("query", TEXT, "--tenant", "acme", "--list")))[1].split() == ["one.md", "two.md"]


def test_a_tenant_is_no_part_of_the_text(tmp_path: Path) -> None:
    spell, keys = SPELLINGS["configured"]
    folder = build(tmp_path / "index", [own(1, "Stores tables.")], [], foreign=True, spell=spell, **keys)
    assert "acme" not in json.loads(run(folder, Way(("query", "tables", "--json")))[1])["results"][0]["content"]


@settings(max_examples=examples(0.7))
@given(indexes(), st.lists(st.sampled_from(WAYS), min_size=12, max_size=12, unique_by=str))
def test_whatever_records_there_are_those_of_others_take_no_part(
    drawn: tuple[list[Row], list[Row]], ways: list[Way]
) -> None:
    with TemporaryDirectory() as name:
        folders = [build(Path(name) / str(foreign), *drawn, foreign=foreign) for foreign in (True, False)]
        for way in ways:
            told_alike(folders, way, cut=True)


# ------------------------------------------------------------------------------------- exclusions, plain filters

CHAIN = [
    {"id": "cut", "name": "Cut", "description": "Cuts lungs.", "requires_tool": ["mid", "free"], "license": "MIT"},
    {"id": "mid", "name": "Mid", "description": "Paints walls.", "requires_tool": ["end"], "license": "GPL-3.0"},
    {"id": "end", "name": "End", "description": "Opens doors.", "requires_tool": ["mid"], "license": "MIT"},
    {"id": "free", "name": "Free", "description": "Closes windows.", "license": "GPL-3.0"},
    *({"id": f"other{at}", "name": f"Other {at}", "description": f"Knits sock {at}."} for at in range(3)),
]


@pytest.fixture
def chain(tmp_path: Path, retrieve: Program, configure: Configure) -> Path:
    configure("expansion", placement="blend")
    assert retrieve("build", "--catalog", write_catalog(tmp_path / "chain.jsonl", CHAIN)).code == 0
    return Path("artifacts")


def found(retrieve: Program, *words: str) -> dict[str, Any]:
    answer = answered(retrieve, *words, "--mode", "bm25", "--expand", "--with-dependencies", "-k", "9")
    return {each["doc_id"]: each for each in answer["results"]}


def needs(result: Mapping[str, Any]) -> dict[str, bool]:
    """By id of what a result needs, whether it is marked as outside of the filter."""
    return {need["id"]: need.get("outside_filter", False) for need in result["bundle"]["needs"]}


def test_what_a_query_excludes_is_neither_a_dependency_nor_a_step_of_a_path(chain: Path, retrieve: Program) -> None:
    every = found(retrieve, "cut lungs")
    assert set(needs(every["cut"])) == {"mid", "end", "free"}
    assert "mid" in every["end"]["path"]
    rest = found(retrieve, "cut lungs [EXCLUDE:mid]")
    assert set(rest) == {"cut", "free"}
    assert (set(needs(rest["cut"])), rest["cut"]["bundle"]["cycles"]) == ({"free"}, [])


@pytest.mark.parametrize("narrow", [["--filter", "license=MIT"], ["--doc-id", "cut", "--doc-id", "end"]])
def test_what_a_filter_leaves_out_is_still_needed_and_is_marked(
    chain: Path, retrieve: Program, narrow: list[str]
) -> None:
    hits = found(retrieve, "cut lungs", *narrow)
    assert set(hits) == {"cut", "end"}
    assert needs(hits["cut"]) == {"end": False, "mid": True, "free": True}
    told = retrieve("query", "cut lungs", "--with-dependencies", "-k", "1", *narrow).out
    assert "    needs: end, mid (outside the filter), free (outside the filter)\n" in told


def test_an_id_that_is_nearly_that_of_an_excluded_record_does_not_suggest_it(chain: Path, retrieve: Program) -> None:
    done = retrieve("query", "cut lungs [EXCLUDE:other1]", "--doc-id", "othr1")
    assert done.code == 2
    assert "other1" not in done.err


# ------------------------------------------------------------------------------------------------------ tenants


def test_an_index_that_knows_no_tenants_does_not_list_its_fields(index: Path, retrieve: Program) -> None:
    done = retrieve("query", "brain", "--tenant", "acme")
    assert done.code == 2
    assert "license" not in done.err


def test_why_is_not_told_without_a_tenant_if_one_is_required(
    tenants: Path, retrieve: Program, configure: Configure
) -> None:
    configure("search", require_tenant="true")
    for name in ("brain", "brian"):
        done = retrieve("inspect", "why", "brain", name)
        assert (done.code, done.out) == (2, "")
        assert "--tenant X" in done.err


def test_a_sync_that_fails_on_the_way_tells_a_tenant_nothing_of_the_records(
    tenants: Path, tmp_path: Path, retrieve: Program, configure: Configure
) -> None:
    configure("sources", auto_sync="true")
    (tmp_path / "owned.jsonl").unlink()
    done = retrieve("query", "brain", "--tenant", "acme", "-l")
    assert (done.code, done.out) == (0, "lungs\n")
    assert "not synced first: see retrieve sync" in done.err
    assert "owned.jsonl" in retrieve("query", "brain", "-l").err
