"""docs/changing.md: usual changes, each made with a toy by the files that the page lists, or from outside."""

import codecs
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest
from fastapi import APIRouter
from package_text import PACKAGE
from samples import ROOT, Program
from servers import sent, server_app, state_of

from retrieve_cli.api.table import Choice
from retrieve_cli.cli.main import command_of
from retrieve_cli.contracts import Kind, Parsed, Ranking
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.operations.doctor.subject import warn
from retrieve_cli.search.answer import Answer
from retrieve_cli.sources.formats.formats import DocumentFormat

PAGE = (ROOT / "docs" / "changing.md").read_text("utf-8")
ROWS = dict(re.findall(r"^\| an? ([^|]+?) \| ([^|]+) \|", PAGE, re.MULTILINE))
PLUGINS = {
    **dict.fromkeys(["source", "chunker", "encoder", "reranker"], ("program/toys/parts.py", "program/test_plugins.py")),
    "retriever": ("program/toys/toy.py", "program/test_plugins.py"),
    "provider of web search": ("program/toys/library.py", "websearch/conftest.py"),
    "engine": ("engines/sqlite_plugin.py", "engines/test_plugin.py"),
}
"""Changes that a plug-in makes, with the toy, and the tests that install and use it."""


class Editor:
    """Makes changes in files that the page lists for a change, and in no others."""

    def __init__(self, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self._files = re.findall(r"`([a-z_/]+\.py)`", ROWS[change])
        self._monkeypatch = monkeypatch

    def module(self, file: str) -> ModuleType:
        assert file in self._files, f"docs/changing.md does not list {file}"
        return import_module("retrieve_cli." + file.removesuffix(".py").replace("/", "."))

    def register(self, file: str, name: str, **entries: Any) -> None:
        """Add entries to a registry that is a dictionary."""
        for key, value in entries.items():
            self._monkeypatch.setitem(getattr(self.module(file), name), key, value)

    def replace(self, file: str, name: str, value: Any) -> None:
        """Give a name of a file another value."""
        self._monkeypatch.setattr(self.module(file), name, value)

    def edit(self, file: str, old: str, new: str) -> None:
        """Load a file with other text in it, as it will be read from now on."""
        before = self.module(file)
        text = (PACKAGE / file).read_text("utf-8")
        assert text.count(old) == 1
        changed = ModuleType(before.__name__)
        changed.__dict__.update(__file__=before.__file__, __package__=before.__package__)
        exec(compile(text.replace(old, new), str(before.__file__), "exec"), changed.__dict__)
        self._monkeypatch.setitem(sys.modules, before.__name__, changed)


@pytest.fixture
def editor(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Editor]:
    return lambda change: Editor(change, monkeypatch)


def test_the_page_lists_files_that_exist() -> None:
    assert len(ROWS) == 14
    files = [file for files in ROWS.values() for file in re.findall(r"`([a-z_/]+\.py)`", files)]
    assert [file for file in files if not (PACKAGE / file).is_file()] == []
    folders = [folder for files in ROWS.values() for folder in re.findall(r"`([a-z_/]+/)NAME", files)]
    assert [folder for folder in folders if not (PACKAGE / folder).is_dir()] == []


@pytest.mark.parametrize("change", PLUGINS)
def test_a_plugin_adds_a_toy_of_it(change: str) -> None:
    toy, tests = ((ROOT / "tests" / path).read_text("utf-8") for path in PLUGINS[change])
    name = re.search(rf'^([A-Z]+) = (?:Plugin\("{change.split(maxsplit=1)[0]}"|Toy\w*\()', toy, re.MULTILINE)
    assert name is not None
    assert f"{Path(PLUGINS[change][0]).stem}:{name[1]}" in tests
    assert re.search(rf"^\| an? {change} \|[^|]+\| yes \|", PAGE, re.MULTILINE)


def test_a_format_of_documents(
    editor: Callable[[str], Editor], monkeypatch: pytest.MonkeyPatch, retrieve: Program
) -> None:
    toy = ModuleType("retrieve_cli.sources.formats.toy")
    toy.__dict__["parse"] = lambda data, *_, **__: Parsed(codecs.decode(data.decode(), "rot13"), title="A toy")
    monkeypatch.setitem(sys.modules, toy.__name__, toy)
    formats, file = editor("format of documents"), "sources/formats/formats.py"
    formats.register(file, "FORMATS", toy=DocumentFormat("toy", (".toy",), toy.__name__))
    formats.register(file, "_BY_SUFFIX", **{".toy": "toy"})
    Path("docs").mkdir()
    Path("docs/one.toy").write_text("n pryy obql")
    built = retrieve("build", "docs")
    assert built.code == 0, built.err
    assert retrieve("query", "cell", "--mode", "bm25", "--list").out == "one.toy\n"


def test_a_route(editor: Callable[[str], Editor], index: Path) -> None:
    def router(_: object) -> APIRouter:
        routes = APIRouter()
        routes.add_api_route("/toy", lambda: {"toy": True}, methods=["GET"])
        return routes

    app = editor("route")
    app.replace("server/http/app.py", "DOORS", (router, *app.module("server/http/app.py").DOORS))
    (answer,) = sent(server_app(state_of(index)), ("GET", "/toy", {}))
    assert answer.json() == {"toy": True}


def test_a_choice_of_a_search(editor: Callable[[str], Editor], index: Path, retrieve: Program) -> None:
    table = editor("choice of a search").module("api/choices.py").SEARCH
    rows = [*table.rows.values(), Choice("toy", {"type": "integer", "minimum": 1}, "Toys.", option="k")]
    before = dict(vars(table))
    try:
        table.__init__(*rows)
        (answer,) = sent(server_app(state_of(index)), ("POST", "/search", {"json": {"query": "brain", "toy": 1}}))
    finally:
        vars(table).update(before)
    assert (answer.status_code, len(answer.json()["results"])) == (200, 1)


class Backwards(Frozen):
    """A stage that turns the order round."""

    kind: ClassVar[Kind] = "cut"
    rescores: ClassVar[bool] = True

    def __call__(self, rankings: Sequence[Ranking]) -> list[Ranking]:
        turned = []
        for ranking in rankings:
            hits = [replace(hit, score=rank) for rank, hit in enumerate(ranking.hits)]
            turned.append(Ranking.again(ranking.query, hits, trace=ranking.trace))
        return turned

    def __str__(self) -> str:
        return "backwards()"


def test_a_stage(editor: Callable[[str], Editor], index: Path, retrieve: Program) -> None:
    words = ("query", "brain images", "--mode", "bm25", "--list")
    before = retrieve(*words).out.splitlines()
    stages, file = editor("stage"), "search/pipelines.py"
    cuts = stages.module(file)._cuts
    stages.replace(file, "_cuts", lambda plan: [*cuts(plan), Backwards()])
    assert len(before) > 1
    assert retrieve(*words).out.splitlines() == before[::-1]
    assert "backwards()" in retrieve(*words[:-1], "--json").json["pipeline"]


def test_a_metric(monkeypatch: pytest.MonkeyPatch, index: Path, retrieve: Program) -> None:
    ir_measures = pytest.importorskip("ir_measures")
    monkeypatch.setitem(ir_measures.measures.registry, "Toy", ir_measures.define_byquery(lambda *_: 0.25, name="Toy"))
    Path("gold.jsonl").write_text('{"id": "1", "query": "brain", "relevant": ["brain"]}\n')
    done = retrieve("eval", "--gold", "gold.jsonl", "--metrics", "toy@5", "--json")
    assert done.code == 0, done.err
    assert '"Toy@5": 0.25' in done.out.replace('"Toy@5":0.25', '"Toy@5": 0.25')


def test_an_output(editor: Callable[[str], Editor], index: Path, retrieve: Program) -> None:
    def as_toy(answers: Sequence[Answer]) -> str:
        return "".join(f"toy {len(answer.results)}\n" for answer in answers)

    output = editor("output")
    output.register("output/formats.py", "FORMATS", toy=as_toy)
    output.edit("cli/query.py", '"trec",', '"trec", "toy",')
    command_of.cache_clear()
    done = retrieve("query", "brain", "-k", "1", "--format", "toy")
    command_of.cache_clear()
    assert (done.code, done.out) == (0, "toy 1\n"), done.err


def test_a_check_of_doctor(editor: Callable[[str], Editor], index: Path, retrieve: Program) -> None:
    check = warn("there is no toy", "buy one")
    editor("check of doctor").register("operations/doctor/examine.py", "_CHECKS", toy=lambda _: check)
    assert "there is no toy" in retrieve("doctor").out
