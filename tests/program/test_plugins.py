"""Plug-ins: a retriever in one file outside of the package, and a chunker, an encoder, a source and a reranker.

Entry points are read once in a process: each run of the program has one of its own, as for whoever installs a package.
"""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from samples import TOOLS, Done, write_catalog
from sync.forks import Child, Nursery

TOYS = Path(__file__).parent / "toys"
CLEAN = {key: value for key, value in os.environ.items() if not key.startswith(("RETRIEVE_", "PYTHON"))}
CLEAN["RETRIEVE_TRUST"] = "1"
TOY = {"toy": "toy:RETRIEVER"}
PARTS = {"halves": "parts:CHUNKER", "letters": "parts:ENCODER", "lines": "parts:SOURCE", "shortest": "parts:RERANKER"}
PARTS["threes"] = "parts:SEGMENTER"
QUESTION = "brain volumes and images"
Run = Callable[..., Done]


@cache
def nursery() -> Nursery:
    """The process that forks for every run: a fork starts in milliseconds, an interpreter in half a second."""
    return Nursery("program.toys.forked")


class Place:
    """A folder in which the program runs, with packages on its path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.packages = folder / "packages"
        self.packages.mkdir(parents=True, exist_ok=True)
        self.encoder = "hashed"
        self.catalog = write_catalog(folder / "tools.jsonl", TOOLS)

    def install(self, package: str, plugins: Mapping[str, str], source: str | None = None) -> None:
        """Puts a package of one module there, with its entry points."""
        text = (TOYS / f"{package}.py").read_text() if source is None else source
        (self.packages / f"{package}.py").write_text(text)
        about = self.packages / f"{package}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        points = "".join(f"{name} = {place}\n" for name, place in plugins.items())
        (about / "entry_points.txt").write_text(f"[retrieve.plugins]\n{points}")

    def remove(self, package: str) -> None:
        (self.packages / f"{package}.py").unlink()
        shutil.rmtree(self.packages / f"{package}-1.0.dist-info")

    def configure(self, **sections: Any) -> None:
        (self.folder / "config.yaml").write_text(yaml.safe_dump(sections))

    def __call__(self, *arguments: object, stdin: str = "") -> Done:
        """Run the program in a forked process."""
        files = {name: self.folder / f"std{name}" for name in ("in", "out", "err")}
        for name, path in files.items():
            path.write_text(stdin if name == "in" else "")
        pid = nursery().ask(
            {
                "call": "program.toys.forked:run",
                "arguments": [str(argument) for argument in arguments],
                "folder": str(self.folder),
                "environment": {**CLEAN, "PACKAGES": str(self.packages), "RETRIEVE_ENCODER__KIND": self.encoder},
                "fault": {},
                "nice": 0,
                "report": os.devnull,
                **{name: str(path) for name, path in files.items()},
            }
        )
        code = Child(pid, self.folder, nursery()).wait()
        done = Done(code, files["out"].read_text("utf-8"), files["err"].read_text("utf-8"))
        assert "Traceback" not in done.err, done.err
        return done

    def build(self, *words: object) -> None:
        """Build an index of the catalog."""
        done = self("build", "--catalog", self.catalog, *words)
        assert done.code == 0, done.err

    def reports(self, status: str, *words: object) -> dict[str, Any]:
        """Return the report of a build or a sync that ends with this status."""
        done = self(*words, "--json")
        assert (done.code, done.json["status"]) == (0, status), done
        return dict(done.json)

    def refuses(self, code: int, said: str, *words: object) -> str:
        """Return the errors of a command, by default a build, that ends with this code and says this."""
        done = self(*(words or ("build", "--catalog", self.catalog)))
        assert (done.code, said in done.err) == (code, True), done
        return done.err

    def answer(self, *words: object) -> dict[str, Any]:
        done = self("query", QUESTION, "--json", *words)
        assert done.code == 0, done.err
        return {key: value for key, value in done.json.items() if key != "timings_ms"}

    def files(self, artifacts: str = "artifacts") -> dict[str, bytes]:
        """The live generation, to the byte."""
        folder = self.folder / artifacts
        live = folder / "generations" / (folder / "current").read_text().strip()
        return {"id": live.name.encode(), **{p.name: p.read_bytes() for p in live.iterdir() if p.suffix != ".json"}}

    @property
    def manifest(self) -> dict[str, Any]:
        live = (self.folder / "artifacts" / "current").read_text().strip()
        path = self.folder / "artifacts" / "generations" / live / "manifest.json"
        return dict(json.loads(path.read_text()))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """An empty place without plug-ins."""
    return Place(tmp_path / "place")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """An index with the toy retriever, for tests that only read it."""
    place = Place(tmp_path_factory.mktemp("plugins"))
    place.install("toy", TOY)
    place.build()
    return place


@pytest.fixture
def own(built: Place, tmp_path: Path) -> Place:
    """A copy of that index and its packages, to be changed."""
    shutil.copytree(built.folder, tmp_path / "own", ignore=shutil.ignore_patterns("config.yaml"))
    place = Place(tmp_path / "own")
    assert place("sync", "--json").code == 0  # the sources are elsewhere
    place.reports("unchanged", "build", "--catalog", place.catalog)
    return place


def results(answer: Mapping[str, Any]) -> list[tuple[str, float]]:
    return [(each["doc_id"], each["score"]) for each in answer["results"]]


# ------------------------------------------------------------------------------------------ a retriever


def test_its_artifact_is_in_the_generation_and_its_card_in_the_recipe(built: Place) -> None:
    assert built.manifest["files"]["toy.pkl"]["rows"] == len(TOOLS)
    assert built.manifest["recipe"]["toy"] == {"letters": 2, "color": "blue"}
    assert "toy.pkl" in built.files()
    assert built("inspect", "verify", "--json").json["files"]["toy.pkl"] == "sound"


def test_it_is_a_mode_and_one_of_several_retrievers(built: Place) -> None:
    alone = built.answer("--mode", "toy")
    assert (alone["strategies_used"], alone["pipeline"]) == (["toy"], "toy@200")
    assert results(alone) == results(built.answer("--retrievers", "toy"))
    both = built.answer("--retrievers", "bm25,toy")
    assert (both["strategies_used"], both["pipeline"]) == (["bm25", "toy"], "fuse(bm25@200, toy@200)")
    done = built("query", "-", "--json", stdin=json.dumps({"query": QUESTION, "retrievers": ["toy", "bm25"]}))
    assert results(done.json) == results(both)


def test_a_hybrid_answer_fuses_it_with_the_others(built: Place) -> None:
    found = built.answer()
    assert found["strategies_used"] == ["bm25", "dense", "toy"]
    ranks = []
    for result in found["results"]:
        scores = result["source_scores"]
        assert set(scores) == {"bm25", "dense", "toy"}
        assert scores["toy"]["weight"] == 0.2
        fused = sum(each["weight"] * each["normalized"] for each in scores.values())
        assert result["score"] == pytest.approx(fused)
        ranks.append(scores["toy"]["rank"])
    alone = {each["doc_id"]: each["score"] for each in built.answer("--mode", "toy")["results"]}
    assert sorted(rank for rank in ranks if rank) == list(range(1, len(alone) + 1))
    assert {each["doc_id"]: each["source_scores"]["toy"]["score"] for each in found["results"]}.items() >= alone.items()


def test_a_filter_holds_in_it_exactly(built: Place) -> None:
    every = {each["doc_id"]: each for each in built.answer("--mode", "toy")["results"]}
    found = built.answer("--mode", "toy", "--filter", "group=microscopy")
    wanted = [name for name, each in every.items() if each["group"] == "microscopy"]
    assert [name for name, _ in results(found)] == wanted
    assert len(wanted) == 2
    assert all(score == every[name]["score"] for name, score in results(found))
    assert len(built.answer("--mode", "toy", "--filter", "group=microscopy", "-k", "1")["results"]) == 1
    assert found["trace"]["filter"]["toy"]["candidates_after_filter"] == 2


def test_what_it_is_configured_with_is_its_own_and_may_change_the_index(own: Place) -> None:
    own.configure(plugins={"toy": {"color": "red"}})
    own.reports("published", "sync")
    assert own.manifest["recipe"]["toy"]["color"] == "red"
    own.configure(plugins={"toi": {"color": "red"}})
    own.refuses(2, "did you mean `toy`?", "query", "x")


def test_it_can_be_switched_off(own: Place) -> None:
    own.configure(plugins={"toy": {"enabled": False}})
    own.build()
    assert "toy" not in own.manifest["recipe"]
    assert "toy.pkl" not in own.files()
    assert own.answer()["strategies_used"] == ["bm25", "dense"]
    own.refuses(6, "this index has no toy retriever", "query", "x", "--mode", "toy")
    own.remove("toy")
    (own.folder / "config.yaml").unlink()
    own.reports("unchanged", "build", "--catalog", own.catalog)


def test_an_index_with_it_says_so_if_the_package_is_gone(own: Place) -> None:
    own.remove("toy")
    assert own("query", "brain", "--mode", "bm25").code == 0, "it is not needed"
    for command in (("query", "brain"), ("inspect", "why", "brain", "brain")):
        said = own.refuses(5, "the index has a retriever 'toy', which is not installed", *command)
        assert "hint: install the package that adds it, or build again: retrieve build" in said
    own.refuses(2, "'toy'", "query", "brain", "--mode", "toy")
    assert "toy" in own("doctor").out
    shutil.copytree(own.folder / "artifacts", own.folder / "other")
    for words in (("build", "--catalog", own.catalog), ("sync", "--artifacts", "other")):
        own.reports("published", *words)
    assert own.files() == own.files("other")
    assert own.answer()["strategies_used"] == ["bm25", "dense"]


@pytest.mark.parametrize(
    ("name", "changed", "said"),
    [
        ("tin", ("", ""), "the plug-in 'tin' adds a retriever with another name, 'toy'"),
        ("encoder", ('"toy"', '"encoder"'), "the plug-in 'encoder' has the name of another part of the recipe"),
        ("toy", ('"toy.pkl"', '"bm25.pkl"'), "two retrievers write bm25.pkl"),
    ],
    ids=["a name of its own", "a name of the recipe", "a file of another one"],
)
def test_one_that_would_take_the_place_of_another_part_or_has_another_name_is_refused(
    place: Place, name: str, changed: tuple[str, str], said: str
) -> None:
    source = (TOYS / "toy.py").read_text()
    assert changed[0] in source
    place.install("toy", {name: "toy:RETRIEVER"}, source.replace(*changed))
    place.refuses(6, said)


def test_one_that_raises_at_import_is_named_with_its_package_unless_it_is_not_needed(place: Place) -> None:
    place.install("broken", {"bad": "broken:RETRIEVER"}, "raise ZeroDivisionError('half done')\n")
    said = place.refuses(
        6, "the plug-in 'bad' of broken (broken:RETRIEVER) cannot be loaded: ZeroDivisionError: half done"
    )
    assert "pip uninstall broken" in said
    assert place("query", "--help").code == 0
    place.configure(plugins={"bad": {"enabled": False}})
    place.build()
    assert place.answer()["strategies_used"] == ["bm25", "dense"]
    (place.folder / "config.yaml").unlink()
    assert place("query", "brain", "--mode", "bm25").code == 0


# --------------------------------------------------------------------------------------------- other parts


@pytest.fixture
def parts(place: Place) -> Place:
    """A place with a package of other parts."""
    place.install("parts", PARTS)
    return place


def test_a_chunker_is_chosen_by_its_name(parts: Place) -> None:
    parts.configure(chunking={"strategy": "halves"})
    done = parts("build", "--catalog", parts.catalog, "--json")
    assert (done.code, done.json["chunks"]) == (0, 2 * len(TOOLS)), done.err
    assert parts.manifest["recipe"]["chunking"]["catalog"] == {"strategy": "halves"}
    found = parts("query", "brain", "--chunks", "--json", "-k", "20").json["results"]
    assert {each["id"].rpartition("#")[2] for each in found} == {"0", "1"}


def test_a_part_that_fails_on_a_record_rejects_it_and_the_rest_is_built(parts: Place) -> None:
    lines = [f"tool{number}: segments lungs" for number in range(40)]
    parts.catalog.with_name("lines.txt").write_text("\n".join([*lines, "no colon", "odd: indivisible"]))
    parts.configure(
        chunking={"strategy": "halves"}, sources={"list": [{"kind": "lines", "name": "l", "path": "lines.txt"}]}
    )
    done = parts("build", "--json")
    assert (done.code, done.json["records"]) == (8, 40), done.err
    assert done.json["quarantined"] == 2
    assert "this is a bug" not in done.err
    reasons = (parts.catalog.parent / "artifacts" / "quarantine.jsonl").read_text()
    assert "IndexError: the line has no colon" in reasons
    assert "KeyError: 'halves'" in reasons
    again = parts("sync", "--json")
    assert (again.code, again.json["quarantined"], again.json["rejected_new"]) == (0, 2, 0)


def test_an_encoder_is_chosen_by_its_name_and_an_index_keeps_to_it(parts: Place) -> None:
    parts.encoder = "letters"
    parts.build()
    assert parts.manifest["recipe"]["encoder"]["family"] == "letters"
    found = parts.answer("--mode", "dense")
    assert len(found["results"]) == len(TOOLS)
    parts.encoder = "hashed"  # what a later build takes: the index is asked with the encoder it has
    assert results(parts.answer("--mode", "dense")) == results(found)
    text = (TOYS / "parts.py").read_text()
    (parts.packages / "parts.py").write_text(text.replace('revision="0" * 40', 'revision="1" * 40'))
    parts.refuses(5, "another encoder 'letters'", "query", "brain", "--mode", "dense")
    parts.remove("parts")
    done = parts("query", "brain", "--mode", "dense")
    assert (done.code != 0, "'letters'" in done.err, "hint:" in done.err) == (True, True, True), done.err


def test_a_source_is_chosen_by_its_kind_and_synced(parts: Place) -> None:
    lines = parts.folder / "list.txt"
    lines.write_text("lungs: segments lungs in CT\ncells: counts cells\n")
    parts.configure(sources=[{"kind": "lines", "path": "list.txt"}])
    assert parts.reports("published", "sync")["records"] == 2
    done = parts("query", "counts cells", "--json")
    assert done.json["results"][0]["doc_id"] == "cells"
    assert {each["freshness"] for each in done.json["results"]} == {"fresh"}
    assert "changed since the build" not in parts("query", "counts cells").err
    parts.reports("unchanged", "sync")
    lines.write_text("lungs: segments lungs in CT\ncells: counts cells\nbrain: strips skulls\n")
    report = parts.reports("published", "sync")
    assert (report["added"], report["kept"]) == (1, 2)
    parts.configure()  # the index itself says what it was built from
    parts.reports("unchanged", "sync")


def test_a_reranker_is_chosen_by_its_name(parts: Place) -> None:
    parts.build()
    parts.configure(rerank={"backend": "shortest", "interpolate": 1.0})
    found = parts.answer()
    assert found["reranked"] is True
    assert found["pipeline"].endswith("> shortest@50")
    lengths = [len(each["content"]) for each in found["results"]]
    assert lengths == sorted(lengths)
    assert {each["rerank"]["scorer"] for each in found["results"]} == {"shortest"}


def test_a_segmenter_cuts_documents_and_queries(parts: Place) -> None:
    parts.catalog.write_text('{"id": "a", "name": "召回率评估 recall"}\n{"id": "b", "name": "other"}\n')
    parts.configure(bm25={"segmenter": "threes"})
    assert parts("build", "--catalog", parts.catalog).code == 0
    assert parts.manifest["recipe"]["bm25"]["analyzer"]["segmenter"] == "threes"
    found = {
        query: [each["id"] for each in parts("query", query, "--mode", "bm25", "--json").json["results"]]
        for query in ("召回率", "回率", "评估", "recall")
    }
    assert {query: bool(ids) for query, ids in found.items()} == {
        "召回率": True,
        "回率": False,
        "评估": True,
        "recall": True,
    }


@pytest.mark.parametrize(
    ("section", "key"),
    [("chunking", "strategy"), ("encoder", "kind"), ("rerank", "backend"), ("bm25", "segmenter")],
)
def test_a_name_that_nothing_adds_is_refused_and_that_of_a_part_of_another_kind_too(
    parts: Place, section: str, key: str
) -> None:
    for name, said in (("no-such-part", "'no-such-part'"), ("lines", "'lines' is not a")):
        parts.encoder = name if section == "encoder" else "hashed"
        parts.configure(**{section: {key: name}})
        built = parts("build", "--catalog", parts.catalog)
        done = parts("query", "brain") if built.code == 0 else built
        assert (done.code, said in done.err) == (2, True), done.err
