"""Workers: the vectors of one process, whoever dies; a text that ends two workers is named."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import Program, fails, write_catalog
from waiting import PATIENCE_S, brought_about, until

from retrieve_cli.api.named_sources import named_sources
from retrieve_cli.assemble.parts import parts_for
from retrieve_cli.assemble.sources import sources_of
from retrieve_cli.config.loading import load
from retrieve_cli.errors import ModelFailed, TextFailed, Unavailable
from retrieve_cli.frozen import replace
from retrieve_cli.ingest.build import build
from retrieve_cli.ingest.report import LossLimits
from retrieve_cli.models.encoders.hashed import HashedEncoder
from retrieve_cli.models.executors.processes import ProcessCrew
from retrieve_cli.models.executors.workers import Encoders, PassageWorkers, Worker
from retrieve_cli.storage.store import Store

sys.path.append(str(Path(__file__).parent))  # where the workers find it as well
from worker_encoders import ONCE, POISON, FragileEncoder, fragile, missing

Hire = Callable[..., PassageWorkers]


@pytest.fixture
def hire(tmp_path: Path) -> Iterator[Hire]:
    """Function that returns workers; `said` of the function lists their notices."""
    made: list[PassageWorkers] = []

    def hire(make: Callable[[], Encoders] = partial(fragile, tmp_path / "marker"), count: int = 2) -> PassageWorkers:
        cards = fragile(tmp_path / "marker").cards
        crew = ProcessCrew(count, partial(Worker, make, cards), ())
        made.append(PassageWorkers(crew, 500, hire.said.append))  # type: ignore[attr-defined]
        return made[-1]

    hire.said = []  # type: ignore[attr-defined]
    yield hire
    for workers in made:
        workers.close()


def texts_of(count: int) -> list[str]:
    chance = random.Random(count)
    return [" ".join(f"word{chance.randrange(400)}" for _ in range(chance.randint(1, 12))) for _ in range(count)]


def vectors(workers: PassageWorkers, texts: Sequence[str]) -> np.ndarray[Any, Any]:
    """Return the vectors of texts."""
    found = encoded(workers, "vectors", texts)
    return np.stack([vector for vector, _ in found])


def encoded(workers: PassageWorkers, form: Any, texts: Sequence[str]) -> list[Any]:
    """Return the results of texts in their order."""
    pairs = [pair for results in workers.results(form, texts) for pair in zip(*results, strict=True)]
    assert sorted(index for index, _ in pairs) == list(range(len(texts)))
    return [result for _, result in sorted(pairs, key=lambda pair: pair[0])]


def records(count: int) -> list[dict[str, str]]:
    return [
        {"id": f"record-{at}", "name": f"tool {at}", "description": text} for at, text in enumerate(texts_of(count))
    ]


def test_two_processes_give_the_vectors_and_terms_of_one(hire: Hire) -> None:
    workers, texts = hire(), texts_of(200)
    np.testing.assert_allclose(vectors(workers, texts), HashedEncoder(64).encode_passages(texts), atol=1e-6)
    assert [one.terms.tolist() for one in encoded(workers, "terms", texts)] == [[len(text)] for text in texts]


def test_the_units_of_a_worker_that_dies_are_encoded_again(hire: Hire) -> None:
    texts = texts_of(60)
    texts[17] = ONCE
    found = vectors(hire(), texts)
    np.testing.assert_allclose(found, HashedEncoder(64).encode_passages(texts), atol=1e-6)
    assert [said.partition(" (")[0] for said in hire.said] == ["note: a worker ended"]  # type: ignore[attr-defined]


def test_a_text_that_ends_two_workers_is_named(hire: Hire) -> None:
    texts = texts_of(60)
    texts[17] = POISON
    with pytest.raises(TextFailed, match=POISON) as raised:
        vectors(hire(), texts)
    assert raised.value.text == POISON


def test_an_error_of_the_encoder_reaches_the_build(hire: Hire) -> None:
    with pytest.raises(Unavailable, match="this text has no vector"):
        vectors(hire(), ["refused"])
    with pytest.raises(Unavailable, match="the model is not on this machine") as raised:
        vectors(hire(missing), ["word"])
    assert raised.value.hint == "fetch it"


def test_a_worker_with_another_model_is_not_used(hire: Hire) -> None:
    with pytest.raises(Unavailable, match="another model"):
        vectors(hire(partial(Encoders, HashedEncoder(32), None, keeps_tokens=False)), ["word"])


def test_a_process_that_ends_before_its_first_text_is_no_fault_of_the_text(hire: Hire) -> None:
    with pytest.raises(ModelFailed, match="before it encodes its first text"):
        vectors(hire(partial(os._exit, 1)), ["word"])


def test_a_build_that_fails_names_the_chunk_and_keeps_what_is_encoded(
    hire: Hire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrieve_cli.ingest.encodings.BATCH", 16)
    rows = records(60)
    rows[40]["description"] = POISON
    settings = load(None)
    sources = sources_of(
        named_sources([str(write_catalog(tmp_path / "tools.jsonl", rows))], [], []),
        settings,
        fetched=tmp_path / "fetched",
    )
    parts = parts_for(sources, settings)
    encoder: Any = FragileEncoder(tmp_path / "marker")
    parts = replace(parts, encoder=encoder, sparse=None, workers=lambda _: hire())
    limits = LossLimits(max_fail=0.0)
    with pytest.raises(ModelFailed, match="chunk 1 of 'record-40' cannot be embedded: two workers ended"):
        build(sources, parts, Store(tmp_path / "artifacts"), limits=limits, progress=Silent())
    assert not (tmp_path / "artifacts" / "current").exists()
    assert any(path.is_file() for path in (tmp_path / "artifacts" / "cache").rglob("*"))


class Silent:
    """Progress that nobody reads."""

    def say(self, sentence: str) -> None: ...


def test_the_flag_gives_the_generation_of_one_process_and_a_sync_embeds_what_changed(
    retrieve: Program, tmp_path: Path
) -> None:
    rows = records(120)
    catalog = write_catalog(tmp_path / "many.jsonl", rows)
    Path("multiprocessing.py").write_text("raise SystemExit('a module of the folder was imported')")
    first = json.loads(retrieve("build", catalog, "--artifacts", "one", "--json").out)
    second = json.loads(retrieve("build", catalog, "--workers", "2", "--json").out)
    assert (second["generation"], second["embedded"]) == (first["generation"], 120)
    rows[7]["description"] = "something quite different"
    write_catalog(catalog, rows)
    assert json.loads(retrieve("sync", "--workers", "2", "--json").out)["embedded"] == 1


def test_an_executor_is_ray_and_a_missing_package_is_named(
    retrieve: Program, catalog: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for given in ("smoke:signals", "http:127.0.0.1:9", "ray"):
        fails(retrieve("build", catalog, "--executor", given), 2, f"--executor takes no '{given}'")
    monkeypatch.setitem(sys.modules, "ray", None)
    fails(retrieve("build", catalog, "--executor", "ray:auto"), 6, "pip install 'retrieve-cli[ray]'")


def test_without_workers_nothing_of_them_is_loaded(catalog: Path) -> None:
    code = (
        "import sys; from retrieve_cli.cli.main import main; main(sys.argv[1:]);"
        "print(*(name for name in sys.modules if name.startswith('retrieve_cli.models.executors')))"
    )
    command = [sys.executable, "-c", code, "build", str(catalog), "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_worker_survives_its_build_however_that_ends(number: int, tmp_path: Path) -> None:
    write_catalog(tmp_path / "many.jsonl", records(6000))
    process = subprocess.Popen(
        [sys.executable, "-m", "retrieve_cli", "build", str(tmp_path / "many.jsonl"), "--workers", "2"],
        stderr=subprocess.DEVNULL,
        env={**os.environ, "RETRIEVE_ENCODER__KIND": "auto"},
        start_new_session=True,
    )
    brought_about(process, lambda: len(_workers_of(process.pid)) == 2, "it has two workers")
    workers = _workers_of(process.pid)
    process.send_signal(number)
    process.wait(timeout=PATIENCE_S)
    until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers), "the end of the workers")
    assert process.returncode in (-number, 128 + number)
    assert not (tmp_path / "artifacts" / "current").exists()


def _workers_of(parent: int) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            spawned = b"spawn_main" in (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if spawned and int(fields[1]) == parent and fields[0] != "Z":
            found.append(int(folder.name))
    return found
