"""One open index for many threads: every answer is the one that its request gets alone, notices included."""

import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from golden.corpora import STEPS, TOOLS
from samples import Program, write_catalog

from retrieve_cli.config.loading import load
from retrieve_cli.contracts import Request
from retrieve_cli.output.formats import answer_json
from retrieve_cli.search.opened import Opened
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage.store import Store

THREADS = 8
TEXTS = (
    "segment lungs in chest CT",
    "brain volumes",
    "count cells in fluorescence images",
    "cluster single-cell data",
    "stores tables on disk",
    "zebra quokka lynx badger brain",
)
Told = list[tuple[dict[str, Any], tuple[str, ...]]]


@dataclass(frozen=True)
class Asked:
    """What one call asks for."""

    requests: tuple[Request, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    def of(self, opened: Opened) -> Told:
        """The answers without what depends on the clock, each with its notices."""
        answers = Searcher(opened, opened.options(**self.options)).answer(self.requests)
        return [({**answer_json(each), "timings_ms": None}, each.notices) for each in answers]


def mixed(texts: Sequence[str]) -> list[Asked]:
    """Requests of every kind."""
    plain: list[tuple[Request, dict[str, Any]]] = []
    for text in texts:
        plain += [
            (Request(text), {}),
            (Request(text), {"k": 3, "rerank": False}),
            (Request(text), {"mode": "bm25", "unit": "chunk", "k": 5}),
            (Request(text), {"mode": "dense", "k": 4}),
            (Request(text, retrievers=("bm25", "dense")), {"rerank": True, "expand": False}),
            (Request(text, retrievers=("dense",)), {"k": 2}),
            (Request(text, also=("another way to put it", "scans of the brain")), {"k": 6}),
            (Request(text, filters=("group=microscopy",)), {"k": 4}),
            (Request(text, filters=("license=MIT", "dims>=3")), {"unit": "chunk"}),
            (Request(text, tenant="acme"), {"rerank": True}),
            (Request(text, doc_ids=("brain", "lungs", "cluster")), {}),
            (Request(f"{text} [FORMAT:CT] [EXCLUDE:WarpAlign]"), {}),
            (Request(f"{text} [INCLUDE:nobody-{len(text)}]"), {"k": 2}),
            (Request(f"{text} [FORMAT:]"), {"mode": "bm25"}),
            (Request(text), {"expand": True, "mode": "bm25", "dependencies": True}),
            (Request(text), {"context": 1, "unit": "chunk", "k": 4}),
            (Request(text), {"max_chunks": 3, "context": 1}),
            (Request(text), {"max_tokens": 60}),
            (Request(text), {"route": True, "k": 5}),
            (Request(text), {"deadline_ms": 600_000.0}),
            (Request(text), {"engine": "naive", "k": 3}),
        ]
    single = [Asked((request,), options) for request, options in plain]
    batches = [
        Asked(tuple(Request(text, id=str(at), retrievers=names) for at, text in enumerate(texts)), {"k": 3})
        for names in ((), ("bm25",))
    ]
    lines = (Request(texts[0], id="a", retrievers=("dense",)), Request(texts[1], id="b"), Request(texts[2], id="c"))
    return [*single, *batches, Asked(lines)]


def together(opened: Opened, asked: Sequence[Asked], alone: Sequence[Told], *, each: int) -> list[str]:
    """What differs from the answers given alone, after every thread has asked `each` times in an order of its own."""
    start = Barrier(THREADS)

    def work(seed: int) -> list[str]:
        places = [at for at in range(len(asked)) for _ in range(1 + each // len(asked))]
        random.Random(seed).shuffle(places)
        start.wait()
        return [f"{asked[at]}" for at in places[:each] if asked[at].of(opened) != alone[at]]

    with ThreadPoolExecutor(THREADS) as threads:
        return [wrong for found in threads.map(work, range(THREADS)) for wrong in found]


class _Vowels:
    """A reranker that needs no model."""

    name = "vowels"

    def score(self, query: str, passages: Sequence[str]) -> Any:
        return np.array([sum(map(passage.count, "aeiou")) for passage in passages], np.float32)


@pytest.fixture
def settings_of(tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Builds an index at the default place under some keys, and gives the settings."""

    def build(**keys: str) -> Any:
        for key, value in {"CHUNKING__SIZE": "40", **keys}.items():
            monkeypatch.setenv(f"RETRIEVE_{key}", value)
        catalog = write_catalog(tmp_path / "all.jsonl", [*TOOLS, *STEPS])
        done = retrieve("build", "--catalog", catalog)
        assert done.code == 0, done.err
        return load(None)

    return build


def test_answers_of_many_threads_are_those_given_alone(
    settings_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrieve_cli.assemble.rerankers.pair_scorer", lambda *_, **__: _Vowels())
    settings = settings_of(RERANK__BACKEND="remote", RERANK__MODEL="vowels")
    asked = mixed(TEXTS)
    one_by_one = Opened.of(Store(Path("artifacts")), settings)
    alone = [each.of(one_by_one) for each in asked]
    assert any(notices for told in alone for _, notices in told)
    assert not all(notices for told in alone for _, notices in told)
    assert any(answer["reranked"] for told in alone for answer, _ in told)
    assert any("path" in hit for told in alone for answer, _ in told for hit in answer["results"])
    assert together(Opened.of(Store(Path("artifacts")), settings), asked, alone, each=60) == []


def test_notices_of_a_request_are_on_its_own_answer_and_on_no_other(settings_of: Callable[..., Any]) -> None:
    opened = Opened.of(Store(Path("artifacts")), settings_of())
    asked = [Asked((Request(f"brain [INCLUDE:nobody{at}]" if at % 2 else "brain", id=str(at)),)) for at in range(40)]
    with ThreadPoolExecutor(THREADS) as threads:
        found = list(threads.map(lambda each: each.of(opened), asked * 5))
    for at, ((answer, notices),) in enumerate(found):
        number = at % 40
        own = (f"no record has the id or name 'nobody{number}' of [INCLUDE:…]",) if number % 2 else ()
        assert notices == own
        assert answer.get("notices", []) == list(own)
