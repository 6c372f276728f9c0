"""The plan of the package holds: imports only point downward, sibling rooms are independent, the start stays light."""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from package_text import FLOORS, PACKAGE, imports, package, room

pytestmark = pytest.mark.usefixtures("parsed_package")

FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
MOST_ROOMS, MOST_FILES_ON_TOP, MOST_LINES = 20, 6, 600
MOST_OF_A_FUNCTION = 45
CONCRETE = ("models", "retrieval.retrievers", "engines", "sources")
"""Folders with many of one kind behind one promise of contracts."""
FOR_ALL = ("sources.chunking",)
"""Among them, what others name: pieces of a record are written and read in one way, whatever its chunker."""
NAME_CONCRETE = ("assemble.", "operations.models.")
"""`operations/models` reads, exports and verifies the very folders that `assemble` opens."""
APART = (
    "sources.formats sources.chunking models.executors retrieval.retrievers retrieval.stages retrieval.queries "
    "retrieval.graph"
).split()
"""Folders that nothing else in their room imports, and that import nothing else of it."""
WITHOUT_SETTINGS = (
    "sources.",
    "models.encoders.",
    "models.rerankers.",
    "models.remote.",
    "models.runtimes.",
    "retrieval.graph.",
    "retrieval.queries.",
    "retrieval.stages.",
    "storage.",
    "http.",
    "websearch.",
)
PROVIDERS = "retrieve_cli.websearch.providers"
"""The concrete part of `websearch`: what is beside them serves any provider."""
HTTP_CLIENTS = {"urllib3", "requests", "httpx", "aiohttp", "http", "urllib.request", "socket", "ssl"}
HEAVY = (
    "torch transformers spacy sentence_transformers onnxruntime faiss scipy sklearn pydantic fastapi uvicorn jwt "
    "cryptography"
).split()


def between_rooms() -> list[tuple[str, str]]:
    """Those of them that cross from one room to another."""
    return [(here, there) for here, there in imports() if room(here) != room(there)]


def within(module: str, folders: Sequence[str]) -> bool:
    return any(module == folder or module.startswith(f"{folder}.") for folder in folders)


def test_every_room_is_in_the_plan() -> None:
    present = {path.stem for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert present - {"__init__", "__pycache__", "py"} == set(FLOOR)


def test_there_are_few_rooms_and_few_files_beside_them() -> None:
    assert len([path for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"]) <= MOST_ROOMS
    assert len(list(PACKAGE.glob("*.py"))) <= MOST_FILES_ON_TOP


def test_no_file_is_long() -> None:
    lengths = {
        path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8").count("\n") for path in PACKAGE.rglob("*.py")
    }
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}


def test_no_function_is_long() -> None:
    functions = [(file.path, name, lines) for file in package() for name, lines in file.functions]
    assert len(functions) > 1000
    assert [each for each in functions if each[2] > MOST_OF_A_FUNCTION] == []


def test_every_room_says_what_it_is_for() -> None:
    openings = {file.path: file.opening for file in package()}
    rooms = {path.rpartition("/")[0] for path in openings if "/" in path}
    assert sorted(room for room in rooms if not openings.get(f"{room}/__init__.py")) == []


def test_files_import_from_lower_floors_alone() -> None:
    upward = [(here, there) for here, there in between_rooms() if FLOOR[room(there)] >= FLOOR[room(here)]]
    assert upward == []


def test_no_file_imports_the_top_of_the_package() -> None:
    """It opens the Python API on demand, so importing it looks upward; version and folder are the ground."""
    importing = re.compile(r"^ *(?:from retrieve_cli import|import retrieve_cli$)", re.MULTILINE)
    assert [path for path, text in written(".") if path != "__init__.py" and importing.search(text)] == []


def test_only_assemble_names_concrete_parts() -> None:
    found = [
        (here, there)
        for here, there in imports()
        if within(there, CONCRETE) and not within(there, FOR_ALL) and not here.startswith(NAME_CONCRETE)
        if not any(within(here, [folder]) and within(there, [folder]) for folder in CONCRETE)
    ]
    assert found == []


def test_folders_of_one_kind_know_nothing_else_of_their_room() -> None:
    apart = {
        (here, there)
        for here, there in imports()
        for folder in APART
        if room(here) == room(there) == room(folder) and within(here, [folder]) != within(there, [folder])
    }
    assert apart == set()


def test_only_assemble_names_providers_of_web_search() -> None:
    found = [
        (file.path, name)
        for file in package()
        for name in file.imported()
        if name.startswith(PROVIDERS) and file.room != "assemble"
        if not file.path.startswith("websearch/providers/")
    ]
    assert found == []


def test_only_the_upper_floors_see_the_settings() -> None:
    seeing = [(here, there) for here, there in imports() if room(there) == "config"]
    assert seeing
    assert [(here, there) for here, there in seeing if here.startswith(WITHOUT_SETTINGS)] == []


WITH_COLUMNS = ("ingest/", "operations/doctor/", "operations/status.py", "cli/printing.py", "storage/records/view.py")
"""Modules that write columns or show all of them to the operator, and the view by which all others read them."""
OF_ALL = [
    "assemble/graph.py",
    "evaluation/evaluate.py",
    "operations/views.py",
    "search/access.py",
    "server/page/view.py",
]
"""Modules that make a view of all records: for callers without a tenant, and for the operator."""


def test_requests_read_columns_by_way_of_the_view_of_a_caller_alone() -> None:
    opening = re.compile(
        r"records\.(columns|sections) import .*(columns_of|stored_columns|facet_columns|section_columns)"
    )
    opened = {path for path, text in written(".") if opening.search(text)} - {"storage/records/sections.py"}
    assert "storage/records/view.py" in opened
    assert [path for path in opened if not path.startswith(WITH_COLUMNS)] == []
    of_all = re.compile(r"RecordView\([^()]+, None\)")
    assert sorted(path for path, text in written(".") if of_all.search(text)) == OF_ALL


def test_no_files_import_one_another_in_a_circle() -> None:
    """Imports for types alone count: what needs its user's types has the wrong place."""
    graph: dict[str, set[str]] = {}
    for here, there in imports():
        graph.setdefault(here, set()).add(there)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1][::-1]))


def test_no_file_finds_the_package_by_its_own_depth() -> None:
    """A file that moves would look elsewhere: `version.FOLDER` is the folder of the package."""
    depth = re.compile(r"__file__\)*\.parents?(?:\[|\.parent)|dirname\([^\n]*__file__|__package__\)?\.r?partition")
    assert [path for path, text in written(".") if depth.search(text.replace("np.__file__", ""))] == ["version.py"]


PUBLISHED_TWICE = {"Index", "Item", "Source"}
"""Classes of `contracts` and of the Python API or of web search that have the same published name."""


def test_a_public_class_has_a_name_of_its_own() -> None:
    """Who greps a name finds one thing."""
    classes = Counter(name for file in package() for name in file.classes if not name.startswith("_"))
    assert {name for name, count in classes.items() if count > 1} == PUBLISHED_TWICE


def test_only_http_imports_an_http_client() -> None:
    found = [
        (file.path, name)
        for file in package()
        for name in file.imported()
        if {name, name.partition(".")[0]} & HTTP_CLIENTS and file.room != "http"
    ]
    assert found == []


def test_a_file_that_asks_a_server_for_bytes_parses_them_with_the_one_door() -> None:
    clients = ("retrieve_cli.http.transport", "retrieve_cli.http.transport", "retrieve_cli.http.guarded")
    asking = {file.path for file in package() if any(name.startswith(clients) for name in file.imported())}
    asking |= {"engines/qdrant.py", "engines/opensearch.py", "websearch/replies.py"}
    parsing = {path for path in asking if re.search(r"json\.loads?\(", (PACKAGE / path).read_text())}
    assert len(asking) > 9
    assert parsing == set()


OWN_WORDS = {
    "cli/main.py": "its version and help",
}
"""Files that print and need no door, and why."""


def test_what_is_printed_or_told_to_a_model_passes_the_one_door() -> None:
    """A file that prints takes the door itself, or prints what `output` rendered or JSON; so does each place of MCP."""
    printing = {file.path for file in package() if any(name == "print" for name, _ in file.calls)}
    printing |= {path for path, text in written("server/mcp") if "types.Text" in text}
    printing |= {path for path, text in written(".") if re.search(r"sys\.std(?:out|err)\.write", text)}
    taking = {
        file.path
        for file in package()
        for node in file.imports
        if isinstance(node, ast.ImportFrom)
        and ({"printable", "dump"} & {each.name for each in node.names} or "output" in str(node.module).split("."))
    }
    assert len(printing) > 15
    assert printing - taking == OWN_WORDS.keys()


def written(folder: str) -> list[tuple[str, str]]:
    """The text of every file below a folder of the package, behind its path."""
    return [(path.relative_to(PACKAGE).as_posix(), path.read_text()) for path in (PACKAGE / folder).rglob("*.py")]


def test_a_retriever_is_named_in_its_own_file_only() -> None:
    names = {path.stem for path in (PACKAGE / "retrieval" / "retrievers").glob("*.py")} & {"bm25", "dense", "splade"}
    found = [
        (file.path, text.lineno)
        for file in package()
        for text in [*file.constants, *file.docstrings]
        if text.value in names and file.path != f"retrieval/retrievers/{text.value}.py"
    ]
    assert names
    assert found == []


def test_a_generation_is_opened_in_one_place() -> None:
    found = {file.path for file in package() for name, _ in file.calls if name == "Generation"}
    assert found == {"storage/generation.py"}


def test_no_code_recognises_a_stage_by_its_printed_name() -> None:
    """Which stage it is stands in its kind: of what it prints nothing is compared, split or searched."""
    names = ("fuse(", "gate(", "expand(", "mmr(", "threshold(", "limit(", "> merge")
    found = [
        (file.path, text.value)
        for file in package()
        for text in [*file.constants, *file.docstrings]
        if len(text.value) < 40
        and any(name in text.value for name in names)
        and not file.path.startswith("retrieval/stages/")
    ]
    assert found == []


def loaded_by(*arguments: str, among: Sequence[str] = HEAVY) -> set[str]:
    """The modules of `among`, by default the heavy packages, that a run of the program loads."""
    code = (
        "import sys; from retrieve_cli.cli.main import main; code = main(sys.argv[1:]);"
        f"print('loaded', *(name for name in {tuple(among)!r} if name in sys.modules)); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split()[1:])


def commands(*but: str) -> list[str]:
    """The modules of the commands, without those of `but`."""
    names = {path.stem for path in (PACKAGE / "cli").glob("*.py")} - {"__init__", "main", "names", "options", *but}
    return [f"retrieve_cli.cli.{name}" for name in sorted(names)]


LAZY = [
    f"retrieve_cli.{name}"
    for name in ("config.loading", "config.settings", "storage", "search", "server", "evaluation")
]


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_loads_no_heavy_package_no_configuration_no_store_and_no_command(argument: str) -> None:
    assert loaded_by(argument, among=[*HEAVY, *LAZY, *commands()]) == set()


def test_a_query_loads_no_other_command_and_nothing_that_it_does_not_use(index: Path) -> None:
    unused = [f"retrieve_cli.{name}" for name in ("output.console_tables", "evaluation.calibrate", "sources.fields")]
    others = commands("query", "answering", "printing", "notes")
    assert loaded_by("query", "brain", "--json", among=[*others, *unused, "rich", "asyncio", "ssl", "sqlite3"]) == set()


@pytest.mark.parametrize("mode", ["bm25", "hybrid"])
def test_a_query_loads_no_heavy_package(catalog: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    monkeypatch.setenv("RETRIEVE_ENCODER__KIND", "auto")
    assert loaded_by("build", "--catalog", str(catalog)) != set()
    assert loaded_by("query", "brain", "--mode", mode) == set()
