"""What has answered lets go: an index of its files with its last reference, a server of every older generation."""

import gc
import json
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from asked_samples import VALUES
from golden.corpora import TOOLS
from server.doors import Door
from servers import built, started, workers_of
from waiting import until

import retrieve_cli
from retrieve_cli.api.choices import SEARCH
from retrieve_cli.api.index import Index
from retrieve_cli.api.table import PYTHON
from retrieve_cli.errors import RetrieveError
from retrieve_cli.storage.store import Store

QUERY = "segment lungs and ribs in CT"
PUBLICATIONS = 5
KEPT = 3
"""The default of `store.keep`."""
CHOICES: dict[str, list[Any]] = {
    **{("k" if name == "limit" else name): values for name, values in VALUES.items()},
    "retrievers": [["bm25"], ["dense", "bm25"]],
    "files": [[]],
    "related": ["brief"],
    "engine": ["naive"],
    "max_chunks": [2],
    "grade": [0.1],
    "similarity_top_k": [3],
    "rerank_keep": [2],
    "rerank_min_score": [0.1],
    "rerank_depth": [3],
    "rerank_interpolate": [1.0],
}
"""Values of every choice of a search. Some are errors here, which let go as well."""


@pytest.fixture(scope="module")
def reranked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The artifacts of an index whose answers are reranked, as they are by default."""
    return built(tmp_path_factory.mktemp("reranked"), TOOLS, RETRIEVE_ENCODER__KIND="auto")


@pytest.fixture
def no_collector() -> Iterator[None]:
    """No cycle is freed meanwhile."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def generations(artifacts: Path, process: int | str = "self") -> set[str]:
    """The generations of which a process has files mapped into memory."""
    place = f"{artifacts}/generations/"
    maps = Path(f"/proc/{process}/maps").read_text().splitlines()
    return {line.partition(place)[2].partition("/")[0] for line in maps if place in line}


def folders(artifacts: Path) -> set[str]:
    """The folders of the current generation: of its older segments, and its own."""
    current = (artifacts / "current").read_text().strip()
    manifest = json.loads((artifacts / "generations" / current / "manifest.json").read_text())
    return {current, *manifest["segments"]}


def searched(**choices: Any) -> Callable[[Index], object]:
    return lambda index: index.search(QUERY, **choices).to_json()


USES = {
    **{f"{name}={value}": searched(**{name: value}) for name, values in CHOICES.items() for value in values},
    "plain": searched(),
    "empty": lambda index: index.search(""),
    "batch": lambda index: index.search_many([QUERY, "brain MRI"], k=2),
    "status": lambda index: index.status,
    "records": lambda index: index.records(filters="license=MIT"),
    "record": lambda index: index.record("lungs"),
    "no record": lambda index: index.record("nobody"),
}


def test_every_choice_of_a_search_is_tried() -> None:
    assert set(CHOICES) == {row.chosen for row in SEARCH.in_door(PYTHON).values()}


@pytest.mark.parametrize("use", USES)
def test_an_index_that_has_answered_is_freed_with_its_last_reference(
    reranked: Path, no_collector: None, use: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_ENCODER__KIND", "auto")
    index = retrieve_cli.open(reranked)
    with suppress(RetrieveError):
        USES[use](index)
    assert generations(reranked) == {index.generation}
    alive = [weakref.ref(each) for each in (index, index.opened, index.opened.models, index.opened.generation)]
    del index
    assert [each() for each in alive] == [None] * len(alive)
    assert generations(reranked) == set()


def test_a_server_maps_two_generations_at_most_and_store_keep_holds_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIEVE_ENCODER__KIND", "auto")
    artifacts = built(tmp_path, TOOLS, RETRIEVE_ENCODER__KIND="auto")
    over = Event()

    def ask(server: Any, word: str) -> int:
        """Search until all is over; the number of answers."""
        answers = 0
        while not over.wait(0.2):  # steadily, and not with all that a core can do
            server.search(query=word, explain=bool(answers % 2))
            answers += 1
        return answers

    with started(artifacts, cwd=tmp_path) as server, ThreadPoolExecutor(2) as threads:
        asking = [threads.submit(ask, server, word) for word in (QUERY, "brain MRI")]
        published = [folders(artifacts)]
        try:
            for number in range(PUBLICATIONS):
                assert Door(server, "").add({"id": f"d{number}", "text": f"Part {number}."})["status"] == "succeeded"
                published.append(folders(artifacts))
                last_two = published[-2] | published[-1]
                # A search ends on the generation that it began with, which may have had two successors meanwhile.
                until(
                    lambda last_two=last_two: generations(artifacts, server.process.pid) <= last_two,
                    "the server maps two generations at most while it is asked",
                )
        finally:
            over.set()
        assert all(each.result() for each in asking)
        current = folders(artifacts)
        processes = [server.process.pid, *workers_of(server.process.pid)]
        until(
            lambda: all(generations(artifacts, each) <= current for each in processes),
            "every process of the server lets go of older generations",
        )
        assert Door(server, "").add({"id": "last", "text": "The last part."})["status"] == "succeeded"
        kept = [stored.manifest for stored in Store(artifacts).kept()]
        needed = {name for manifest in kept[-KEPT:] for name in (manifest.id, *manifest.segments)}
        assert {path.parent.name for path in (artifacts / "generations").glob("*/manifest.json")} == needed
