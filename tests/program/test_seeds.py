"""docs/seeds.md tells the truth: the command of every row runs, and shows what the row says."""

import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from doc_pages import write_library
from samples import ROOT, Done, Program, write_catalog
from servers import client_of, state_of
from websearch.fakes.server import faking

from retrieve_cli.server.http.app import server_app

PAGE = (ROOT / "docs" / "seeds.md").read_text("utf-8")
ROW = re.compile(r"^\| ([A-E]\d+) \|.*\| (?:`([^`]*)`|–) \|$", re.MULTILINE)
ROWS = {name: command.replace("\\|", "|") for name, command in ROW.findall(PAGE)}
"""By row, its command."""
SHOWN: dict[str, str | tuple[int, str]] = {
    "A1": '"enhanced_query": "segment lungs format:DICOM format:CT format:3D',
    "A2": '"excluded": [\n    "lungmask",\n    "nnunet"\n  ]',
    "A3": "lungmask",
    "A4": '"attempts"',
    "A5": "wrote config.yaml (preset imaging)",
    "A6": "prefix",
    "A7": "lungmask",
    "A8": "intact",
    "A9": '"rank": 12,',
    "A10": '"remote": "',
    "A11": "| retrieval_score |",
    "A12": "nothing to do",
    "A13": "lungmask",
    "A14": "lungmask",
    "A15": (6, "dense.device: auto"),
    "A16": "mean_similarity=0.",
    "A17": '"license": "MIT"',
    "B1": "wrote config.yaml (preset biocortex)",
    "B2": "(domain: transcriptomics)",
    "B3": "all-MiniLM-L6-v2",
    "B4": (6, "127.0.0.1:9"),
    "B5": '"doc_id": "celltypist_annotation"',
    "B6": "celltypist_annotation",
    "B7": '"llm"',
    "B8": "requires",
    "B9": '"pipeline": "bm25@200',
    "B10": '"notices":["DuckDuckGo is asked, because no key of another provider is set',
    "C1": '"doc_id": "Munich/transport.md"',
    "C2": "wrote config.yaml (preset rag)",
    "C3": "published",
    "C4": '"reranked": true',
    "C5": '"pipeline_info"',
    "C6": '"engineUsed":"naive"',
    "C7": '"page": 2,\n      "page_end": 2,\n      "page_label": "1"',
    "C8": '"documentId":"lungmask"',
    "D1": "transport.md",
    "D2": "transport.md",
    "D3": '"Munich"',
    "D4": '"context"',
    "D5": "maxsim@200",
    "D6": "dense   rank",
    "D7": "transport.md",
    "D8": "transport.md",
    "D9": '"max_chunks": 2',
    "D10": "R@10",
    "D11": "saved as run",
    "D12": "transport.md",
    "D13": '"topped_up": true',
    "D14": "[1]",
    "E1": '"section": "Methods"',
    "E2": '"section": "Indications and Usage"',
    "E3": "published",
    "E4": "facets: 1 made",
    "E5": "wrote config.yaml (preset modular)",
    "E6": (6, "GPU"),
    "E7": "splade",
    "E8": "lungmask",
    "E9": "published",
    "E10": '"doc_id": "scanpy_preprocess"',
    "E11": '"section": "',
    "E12": '"strategies_used"',
    "E13": '"fusion_method": "rrf',
    "E14": '"fusion_method": "weighted(minmax',
    "E15": "maxsim@30",
    "E16": '"highlights"',
    "E17": "lungs.tar.zst",
    "E18": '"chunk_id":"lungmask#0"',
    "E19": "ok",
    "E20": "published",
}
"""By row, a part of what its command prints, with the exit code where that is not 0."""
CONFIGURED = {"RETRIEVE_ENCODER__KIND": "auto"}
"""The default encoder, which other tests do without."""
BUILT_AGAIN = {"E7": "without-splade", "E9": "hnsw16"}
"""Rows that build an index of the tools in another way, and its folder, which has their vectors already."""
ON_THE_WEB = {"B10"}
"""Rows that ask providers, for which fakes stand in."""

TRANSPORT = """# {city}

{city} reports on its climate plan every year, and this is the part on how people move and how homes are heated.

## Transport

The tram lines of {city} were extended by {number} kilometres, and their trams run every five minutes. Buses feed
the tram lines at {number} stops, and cyclists have lanes of their own on the ring road, which lorries leave at night.

## Heating

District heating reaches {number} thousand homes. The remaining gas boilers are replaced street by street,
beginning with the schools, and the heat of the data centre heats the public baths.

## Budget

| measure | year | cost |
|---|---|---|
| tram lines | 2024 | {number} million |
| heat network | 2025 | {number} million |
"""
PAPER = """# Sleep of mice

Introduction

Mice sleep during the day. Why their sleep is divided into many short pieces is not known.

Methods

We recorded twelve mice for a month with electrodes, and removed one from the analysis.

Results

Their sleep was divided into pieces of eleven minutes, and shorter ones after a change of the light.
"""
LABEL = """ASPIRIN TABLETS

INDICATIONS AND USAGE

For the temporary relief of headache, and of pain in muscles.

DOSAGE AND ADMINISTRATION

One tablet every four hours, and no more than twelve a day.
"""
BIOLOGY = [
    {"id": "scanpy_preprocess", "name": "scanpy_preprocess", "domain": "transcriptomics", "tenant_id": "lab",
     "description": "Filters and normalises counts of scRNA-seq before clustering."},
    {"id": "leiden_clustering", "name": "leiden_clustering", "domain": "transcriptomics",
     "description": "Groups cells of scRNA-seq into clusters by communities of a graph of neighbours.",
     "requires_tool": ["scanpy_preprocess", "harmony_batch_correction"]},
    {"id": "harmony_batch_correction", "name": "harmony_batch_correction", "domain": "transcriptomics",
     "description": "Removes effects of batches from an embedding.", "requires_tool": ["scrublet_doublet_detection"]},
    {"id": "scrublet_doublet_detection", "name": "scrublet_doublet_detection", "domain": "transcriptomics",
     "description": "Finds droplets that held two of them."},
    {"id": "celltypist_annotation", "name": "celltypist_annotation", "domain": "transcriptomics",
     "description": "Names types by a trained classifier.", "requires_tool": ["leiden_clustering"]},
]  # fmt: skip


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the page describes."""
    folder = tmp_path_factory.mktemp("seeds")
    shutil.copy(ROOT / "catalogs" / "tools.jsonl", folder)
    biology = write_catalog(folder / "biology.jsonl", BIOLOGY).read_text("utf-8")
    (folder / "biology.jsonl").write_text((folder / "tools.jsonl").read_text("utf-8") + biology, "utf-8")
    shutil.copy(ROOT / "catalogs" / "files" / "ct_chest.dcm", folder / "scan.dcm")
    documents = {"papers/mice.md": PAPER, "labels/aspirin.txt": LABEL}
    for number, city in enumerate(("Munich", "Vienna", "Oslo", "Lyon"), 3):
        documents[f"documents/{city}/transport.md"] = TRANSPORT.format(city=city, number=number)
    for path, text in documents.items():
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_text(text, "utf-8")
    write_library(folder / "library")
    (folder / "config.yaml").write_text("chunking: {size: 80}\n", "utf-8")
    (folder / "queries.txt").write_text("segment lungs\nstitch tiles\n", "utf-8")
    judged = {"query": "tram lines of Munich", "file": "Munich/transport.md", "heading": "Transport"}
    write_catalog(folder / "cities.gold.jsonl", [judged])
    for arguments in (
        ("--catalog", "tools.jsonl"),
        ("--catalog", "biology.jsonl", "--artifacts", "biology"),
        ("--docs-dir", "documents", "--artifacts", "cities"),
    ):
        command = [sys.executable, "-m", "retrieve_cli", "build", *arguments]
        environment = {**os.environ, **CONFIGURED, "PYTHONPATH": str(ROOT)}
        subprocess.run(command, cwd=folder, check=True, capture_output=True, env=environment)
        if not (folder / "biology").exists():  # the same tools: their vectors are kept
            shutil.copytree(folder / "artifacts", folder / "biology")
    return folder


@pytest.fixture
def providers(row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fakes of the providers for the rows that ask them."""
    if row not in ON_THE_WEB:
        yield
        return
    with faking() as fakes:
        monkeypatch.setenv("RETRIEVE_WEB__ENDPOINTS", json.dumps(fakes.endpoints))
        monkeypatch.setattr("retrieve_cli.search.web.RESULTS", 10)  # so many results do the fakes have
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        yield


def test_every_row_has_a_command() -> None:
    assert {name for name, command in ROWS.items() if command} == set(ROWS) == set(SHOWN)


@pytest.mark.usefixtures("providers")
@pytest.mark.parametrize("row", SHOWN)
def test_the_command_of_a_row_shows_what_the_row_says(
    row: str,
    prepared: Path,
    tmp_path: Path,
    retrieve: Program,
    monkeypatch: pytest.MonkeyPatch,
    stdin: Callable[[bytes], None],
) -> None:
    folder = tmp_path / "here"
    shutil.copytree(prepared, folder)
    if row in BUILT_AGAIN:
        shutil.copytree(folder / "artifacts", folder / BUILT_AGAIN[row])
    monkeypatch.chdir(folder)
    for name, value in CONFIGURED.items():
        monkeypatch.setenv(name, value)
    words = shlex.split(ROWS[row])
    while re.match(r"[A-Z_]+=", words[0]):
        name, _, value = words.pop(0).partition("=")
        monkeypatch.setenv(name, value)
    if "<" in words:
        stdin((folder / words[-1]).read_bytes())
        words = words[: words.index("<")]
    done = retrieve(*words[1:]) if words[0] == "retrieve" else answered(words)
    shown = SHOWN[row]
    code, text = shown if isinstance(shown, tuple) else (0, shown)
    assert done.code == code, done.err
    assert text in done.out + done.err


def answered(words: list[str]) -> Done:
    """What `curl` prints of the answer of a server in this folder."""
    curl, silent, address, data, body = words
    assert (curl, silent, data) == ("curl", "-s", "-d")
    state = state_of(Path("artifacts"))

    async def sent() -> str:
        async with client_of(server_app(state)) as client:
            answer = await client.post(address.removeprefix("127.0.0.1:8100"), content=body)
            return answer.text

    text = asyncio.run(sent())
    state.close()
    return Done(0, text, "")
