"""An encoder behind a server, in the whole program: built, asked, and refused where it is another one."""

import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models.remote.servers import Api, Asked, running
from program.asking import Configure, answered, refused
from samples import Program


def by_words(model: str = "big-one", dim: int = 32) -> Callable[[Asked], Any]:
    """Answer with vectors by the words of a text, as a server of this model."""

    def respond(asked: Asked) -> Any:
        texts = asked.json["input"] if isinstance(asked.json["input"], list) else [asked.json["input"]]
        wanted = asked.json.get("dimensions", dim)
        rows = [{"index": at, "embedding": vector(text, wanted)} for at, text in enumerate(texts)]
        return {"data": rows, "model": model}

    return respond


def vector(text: str, dim: int) -> list[float]:
    found = np.zeros(dim)
    for word in text.lower().split():
        found += np.random.default_rng(zlib.crc32(word.strip(":.,()").encode())).normal(size=dim)
    return found.tolist()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    for api in running():
        api.respond = by_words()
        for key, value in {"KIND": "remote", "MODEL": "big-one", "BASE_URL": api.url, "RETRIES": "0"}.items():
            monkeypatch.setenv(f"RETRIEVE_ENCODER__{key}", value)
        yield api


def test_it_builds_and_answers_and_the_card_says_what_the_server_says(
    server: Api, catalog: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "s3cret-key")
    monkeypatch.setenv("RETRIEVE_ENCODER__API_KEY_ENV", "MY_KEY")
    done = retrieve("build", "--catalog", catalog)
    assert done.code == 0, done.err
    manifest = next(Path("artifacts/generations").glob("*/manifest.json")).read_text()
    card = json.loads(manifest)["recipe"]["encoder"]
    assert (card["family"], card["name"], card["dim"]) == ("remote", "big-one", 32)
    found = retrieve("query", "segment lungs in CT", "--mode", "dense", "--json")
    assert found.json["results"][0]["doc_id"] == "lungs"
    assert {asked.headers.get("Authorization") for asked in server.asked} == {"Bearer s3cret-key"}
    written = "".join(path.read_text(errors="replace") for path in Path("artifacts").rglob("*") if path.is_file())
    assert "s3cret-key" not in written + done.out + done.err + found.out + found.err


def test_another_model_or_length_than_the_indexs_is_refused_with_both_names(
    server: Api, catalog: Path, retrieve: Program
) -> None:
    assert retrieve("build", "--catalog", catalog).code == 0
    server.respond = by_words("other-one")
    for answer, (own, other) in ((by_words("other-one"), ("big-one", "other-one")), (by_words(dim=48), ("32", "48"))):
        server.respond = answer
        err = refused(retrieve, "query", "lungs", "--mode", "dense", code=5)
        assert (own in err, other in err) == (True, True)


def test_a_key_that_is_not_set_or_a_server_that_is_gone_leaves_the_leg_out(
    server: Api, catalog: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert retrieve("build", "--catalog", catalog).code == 0
    monkeypatch.setenv("RETRIEVE_ENCODER__API_KEY_ENV", "NO_SUCH_KEY")
    assert "NO_SUCH_KEY" in answered(retrieve, "lungs")["strategies_skipped"]["dense"]
    monkeypatch.delenv("RETRIEVE_ENCODER__API_KEY_ENV")
    monkeypatch.setenv("RETRIEVE_ENCODER__BASE_URL", "http://127.0.0.1:9/v1")
    assert "dense" in retrieve("query", "lungs", "--json").json["strategies_skipped"]
    monkeypatch.delenv("RETRIEVE_ENCODER__BASE_URL")
    assert "encoder.base_url" in refused(retrieve, "query", "lungs", "--mode", "dense")


def test_dimensions_are_asked_of_the_server_and_part_of_the_index(
    server: Api, catalog: Path, retrieve: Program, configure: Configure
) -> None:
    configure("encoder", dimensions=16)
    assert retrieve("build", "--catalog", catalog).code == 0
    assert all(asked.json["dimensions"] == 16 for asked in server.asked)
    assert retrieve("query", "lungs", "--mode", "dense").code == 0
