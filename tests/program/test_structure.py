"""The house keeps its shape: nothing imports upward, rooms are strangers, the start stays light."""

import ast
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from samples import Program

import retrieve_cli

PACKAGE = Path(retrieve_cli.__file__).parent
FLOORS = [
    {"contracts", "errors", "addresses", "manifest", "changes", "durable", "pickles", "tables", "confidence"},
    {
        "config",
        "config_file",
        "settings",
        "lock",
        "store",
        "generation",
        "vectors",
        "ragged_cache",
        "token_cache",
        "embedding",
        "sources",
        "chunking",
        "encoders",
        "indexes",
        "queries",
        "stages",
        "evaluation",
    },
    {"assemble", "render", "terminal", "serving"},
    {"answering"},
    {"build", "reuse", "sync", "search", "models", "comparison", "inspection", "doctor"},
    {"experiments"},
    {"cli"},
    {"__main__"},
]
FLOOR = {part: number for number, parts in enumerate(FLOORS) for part in parts}
SEE_SETTINGS = {
    "config",
    "settings",
    "cli",
    "build",
    "sync",
    "search",
    "assemble",
    "answering",
    "comparison",
    "inspection",
    "doctor",
    "experiments",
    "models",
}
HEAVY = (
    "torch",
    "transformers",
    "spacy",
    "sentence_transformers",
    "onnxruntime",
    "faiss",
    "scipy",
    "sklearn",
    "pydantic",
    "fastapi",
    "uvicorn",
)


def imports() -> list[tuple[str, str, str]]:
    """Every import of one part of the package by another: file, importing part, imported part."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).parts
        here = parts[0].removesuffix(".py")
        if here == "__init__":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = []
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("retrieve_cli"):
                inner = node.module.split(".")[1:]
                names = [inner[0]] if inner else [alias.name for alias in node.names]
            found += [("/".join(parts), here, name) for name in names if name != "__version__"]
    return found


def test_every_part_of_the_package_has_a_floor() -> None:
    present = {path.stem if path.suffix else path.name for path in PACKAGE.iterdir()} - {
        "__init__",
        "__pycache__",
        "py",
    }
    assert present - {"py"} == set(FLOOR)


def test_no_file_imports_from_a_higher_floor() -> None:
    upward = [(file, there) for file, here, there in imports() if FLOOR[there] > FLOOR[here]]
    assert upward == []


def test_rooms_are_strangers_to_each_other() -> None:
    rooms = {"sources", "chunking", "encoders", "indexes", "queries", "stages", "evaluation"}
    met = [(file, there) for file, here, there in imports() if {here, there} <= rooms and here != there]
    assert met == []


def test_only_the_upper_floors_see_the_settings() -> None:
    assert {here for _, here, there in imports() if there in ("config", "settings")} <= SEE_SETTINGS


def loaded_by(*arguments: str, among: Sequence[str] = HEAVY) -> set[str]:
    """The modules of `among`, by default the heavy packages, that a run of the program loads."""
    code = (
        "import sys; from retrieve_cli.cli.main import main; code = main(sys.argv[1:]);"
        f"print('loaded', *(name for name in {tuple(among)!r} if name in sys.modules)); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split()[1:])


def test_help_loads_no_heavy_package() -> None:
    assert loaded_by("--help") == set()


def test_help_loads_neither_the_configuration_nor_the_store() -> None:
    lazy = [f"retrieve_cli.{name}" for name in ("config", "store", "manifest", "search", "serving", "experiments")]
    assert loaded_by("--help", among=lazy) == set()


@pytest.mark.parametrize("mode", ["bm25", "hybrid"])
def test_a_query_loads_no_heavy_package(catalog: Path, retrieve: Program, monkeypatch, mode: str) -> None:
    monkeypatch.setenv("RETRIEVE_ENCODER__KIND", "auto")
    retrieve("build", "--catalog", catalog)
    assert loaded_by("query", "brain", "--mode", mode) == set()
