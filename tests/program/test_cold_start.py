"""What one command in a fresh process loads and opens: what it uses, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from samples import TOOLS, Program, write_catalog

from retrieve_cli.cli.main import main
from retrieve_cli.cli.names import COMMANDS

CODE = """
import sys
from retrieve_cli.cli.main import main
names, *commands = map(str.split, sys.argv[1:])
for command in commands:
    code = main(command)
    print('loaded', *(name for name in sys.modules if name in names))
    sys.stdout.flush()
    assert code == 0
"""
EVERYWHERE = (
    "asyncio concurrent.futures email http importlib.metadata logging multiprocessing pydantic socket ssl "
    "tempfile tokenizers torch transformers onnxruntime onnx faiss scipy urllib.request"
)
"""Modules that no help and no query of a flat index by a short text needs."""
NO_NUMBERS = "numpy ctypes hashlib orjson retrieve_cli.contracts retrieve_cli.storage retrieve_cli.search"
NO_VECTORS = (
    "retrieve_cli.models retrieve_cli.retrieval.graph retrieve_cli.retrieval.stages.rerank "
    "retrieve_cli.storage.token_table"
)


def loaded(modules: str, *commands: str) -> list[list[str]]:
    """Those of some modules that are loaded after each of some commands in one process, in the order of loading."""
    assert [name for name in modules.split() if name.startswith("retrieve_cli.") and find_spec(name) is None] == []
    done = subprocess.run([sys.executable, "-c", CODE, modules, *commands], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [line.split()[1:] for line in done.stdout.splitlines() if line.split()[:1] == ["loaded"]]


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The artifacts folder of an index whose vectors are those of the default model."""
    folder = tmp_path_factory.mktemp("embedded")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RETRIEVE_ENCODER__KIND", "auto")
        catalog = write_catalog(folder / "tools.jsonl", TOOLS)
        assert main(["build", "--catalog", str(catalog), "--artifacts", str(folder / "artifacts")]) == 0
    return folder / "artifacts"


@pytest.fixture
def transformer(embedded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That index at the default place, and no configuration."""
    monkeypatch.delenv("RETRIEVE_ENCODER__KIND")
    Path("artifacts").symlink_to(embedded)


def test_help_loads_the_command_line_alone() -> None:
    assert loaded(f"{EVERYWHERE} {NO_NUMBERS} {NO_VECTORS} rich yaml", "--help") == [[]]


def test_the_help_of_a_command_loads_nothing_that_answers() -> None:
    helps = [f"{command} --help" for command in sorted(set(COMMANDS) - {"serve"})]
    assert loaded(f"{EVERYWHERE} mcp_types fastapi starlette uvicorn psycopg", *helps) == [[]] * len(helps)


def test_the_help_of_a_server_loads_no_server() -> None:
    assert loaded("pydantic mcp mcp_types fastapi starlette uvicorn torch faiss", "serve --help") == [[]]


@pytest.mark.parametrize("form", ["json", "text", "trec"])
@pytest.mark.usefixtures("transformer")
def test_a_hybrid_query_loads_no_more_than_it_uses(form: str) -> None:
    assert loaded(f"{EVERYWHERE} rich yaml", f"query segment lungs --format {form}") == [[]]


@pytest.mark.parametrize("form", ["json", "text"])
@pytest.mark.usefixtures("transformer")
def test_a_query_by_words_loads_no_encoder_graph_or_reranker(form: str) -> None:
    modules = f"{EVERYWHERE} {NO_VECTORS} rich yaml"
    assert loaded(modules, f"query segment lungs --mode bm25 --format {form}") == [[]]


def test_damaged_vectors_fail_the_queries_that_use_them_alone(index: Path, retrieve: Program) -> None:
    (vectors,) = index.glob("generations/*/dense.faiss")
    vectors.write_bytes(b"?" * vectors.stat().st_size)
    assert retrieve("query", "lungs", "--mode", "bm25", "--json").json["results"][0]["doc_id"] == "lungs"
    assert retrieve("query", "lungs", "--mode", "dense").code == 5
    assert retrieve("query", "lungs").code == 5
    assert retrieve("inspect", "verify").code == 5
