"""Work spread over threads is all done, once each, and its failures are heard; threads share an encoder."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any, TypeVar

import pytest
from waiting import PATIENCE_S, pause

from retrieve_cli.contracts import TokenVectors
from retrieve_cli.models.encoders.onnx_encoder import OnnxEncoder
from retrieve_cli.models.encoders.torch_encoder import TorchEncoder
from retrieve_cli.models.runtimes.model_folder import ModelFolder
from retrieve_cli.models.runtimes.packages import once, spread

T = TypeVar("T")


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_every_item_is_worked_on_once(threads: int, count: int) -> None:
    done: list[int] = []
    spread(done.append, range(count), threads=threads)
    assert sorted(done) == list(range(count))


@pytest.mark.parametrize("threads", [1, 4])
def test_a_failure_of_one_item_is_raised(threads: int) -> None:
    def fail(item: int) -> None:
        if item == 3:
            raise ValueError("three")

    with pytest.raises(ValueError, match="three"):
        spread(fail, range(5), threads=threads)


def together(work: Callable[[], T], *, threads: int = 8) -> list[T]:
    """The results of `work` in threads that start at the same moment."""
    start = Barrier(threads, timeout=PATIENCE_S)

    def run(_: int) -> T:
        start.wait()
        return work()

    with ThreadPoolExecutor(threads) as workers:
        return list(workers.map(run, range(threads)))


def test_what_is_loaded_once_is_loaded_by_one_of_the_threads_that_need_it() -> None:
    class Holder:
        @once
        def model(self) -> object:
            pause(0.01, why="the other threads ask meanwhile")
            return object()

    holder = Holder()
    assert len(set(together(lambda: holder.model))) == 1
    assert Holder().model is not holder.model


def test_what_failed_to_load_is_tried_again() -> None:
    tries: list[int] = []

    class Holder:
        @once
        def model(self) -> int:
            tries.append(1)
            return len(tries) // (len(tries) - 1)

    holder = Holder()
    with pytest.raises(ZeroDivisionError):
        _ = holder.model
    assert holder.model == 2


TEXTS = ["", "segment lungs in CT", "the word segment", "word " * 30, "x" * 100]


def digest(vectors: Any, tokens: Sequence[TokenVectors]) -> bytes:
    return b"".join([vectors.tobytes(), *(part.tobytes() for text in tokens for part in (text.ids, text.vectors))])


@pytest.mark.parametrize("kind", [OnnxEncoder, TorchEncoder])
def test_threads_share_an_encoder(
    tiny_bert: ModelFolder, tmp_path: Path, kind: type[OnnxEncoder] | type[TorchEncoder]
) -> None:
    alone, shared = kind(tiny_bert, cache_dir=tmp_path), kind(tiny_bert, cache_dir=tmp_path)
    expected = digest(alone.encode_queries(TEXTS), alone.encode_tokens(TEXTS))
    assert set(together(lambda: digest(shared.encode_queries(TEXTS), shared.encode_tokens(TEXTS)))) == {expected}
    assert shared.truncated == 8 * alone.truncated > 0
