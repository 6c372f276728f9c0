"""Work spread over threads is all done, once each, and its failures are heard; threads share an encoder."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any, TypeVar

import pytest
from waiting import PATIENCE_S

from retrieve_cli.contracts import TokenVectors
from retrieve_cli.models.encoders.onnx_encoder import OnnxEncoder
from retrieve_cli.models.encoders.torch_encoder import TorchEncoder
from retrieve_cli.models.runtimes.model_folder import ModelFolder

T = TypeVar("T")


def together(work: Callable[[], T], *, threads: int = 8) -> list[T]:
    """The results of `work` in threads that start at the same moment."""
    start = Barrier(threads, timeout=PATIENCE_S)

    def run(_: int) -> T:
        start.wait()
        return work()

    with ThreadPoolExecutor(threads) as workers:
        return list(workers.map(run, range(threads)))


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
