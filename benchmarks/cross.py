"""Reranking on the CPU: fifty pairs of 128 tokens through a cross-encoder of MiniLM-L6's shape, against CrossEncoder.

python -m benchmarks.cross

The weights are random, which costs neither side anything: what a pair takes depends on the shapes alone.
"""

import json
import shutil
import statistics
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.process import WORK
from benchmarks.speed import line

MODEL, CACHE = WORK / "cross-encoder", WORK / "cross-cache"
PAIRS, TOKENS, ROUNDS = 50, 128, 5
QUESTION = "which tool aligns short reads to a reference genome"
WORDS = "tool reads align genome image brain cell volume register protein sequence file format chest scan mesh".split()


def model() -> Path:
    """A cross-encoder as the ms-marco MiniLM ones are: six layers of 384, twelve heads, one label, identity."""
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    from retrieve_cli.models.runtimes.locate import locate

    if (MODEL / "config.json").is_file():
        return MODEL
    MODEL.mkdir(parents=True, exist_ok=True)
    tokenizer = AutoTokenizer.from_pretrained(str(locate("default").path), model_max_length=512)
    sizes = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
    config = BertConfig(**sizes, vocab_size=len(tokenizer), num_labels=1)
    tokenizer.save_pretrained(MODEL)
    BertForSequenceClassification(config).save_pretrained(MODEL)
    settings = json.loads((MODEL / "config.json").read_text("utf-8"))
    settings["sentence_transformers"] = {"activation_fn": "torch.nn.modules.linear.Identity"}
    (MODEL / "config.json").write_text(json.dumps(settings), "utf-8")
    return MODEL


def passages(tokenizer: object) -> list[str]:
    """Passages of single-token words that fill a pair to the token."""
    generator = np.random.default_rng(0)
    room = TOKENS + 1 - len(tokenizer(QUESTION, "x")["input_ids"])  # type: ignore[operator]
    words = [word for word in WORDS if len(tokenizer.tokenize(word)) == 1]  # type: ignore[attr-defined]
    return [" ".join(generator.choice(words, room)) for _ in range(PAIRS)]


def rerank() -> bool:
    """Median seconds of both, in turn, and how far their scores are apart."""
    from sentence_transformers import CrossEncoder

    from retrieve_cli.models.rerankers.cross_folder import read_cross_folder
    from retrieve_cli.models.rerankers.scorer import CrossScorer

    shutil.rmtree(CACHE, ignore_errors=True)
    ours, peer = CrossScorer(read_cross_folder(model()), cache_dir=CACHE, device="cpu"), CrossEncoder(str(model()))
    texts = passages(peer.tokenizer)
    assert {len(peer.tokenizer(QUESTION, text)["input_ids"]) for text in texts} == {TOKENS}
    pairs = [(QUESTION, text) for text in texts]
    begun = time.perf_counter()
    ours.score(QUESTION, texts[:1])
    export = time.perf_counter() - begun
    peer.predict(pairs[:1])
    seconds: list[tuple[float, float]] = []
    apart = 0.0
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        mine = ours.score(QUESTION, texts)
        between = time.perf_counter()
        theirs = peer.predict(pairs)
        seconds.append((between - begun, time.perf_counter() - between))
        apart = max(apart, float(np.abs(mine - theirs).max()))
    ratio = statistics.median(theirs / mine for mine, theirs in seconds)
    middle = [statistics.median(side) for side in zip(*seconds, strict=True)]
    figure = (
        f"{middle[0]:.2f} s; CrossEncoder {middle[1]:.2f} s; {ratio:.2f}×; apart {apart:.0e}; export {export:.1f} s"
    )
    return line(f"rerank {PAIRS} pairs of {TOKENS} tokens", figure, "≥ 1.5×, ≤ 1e-4", ratio >= 1.5 and apart <= 1e-4)


if __name__ == "__main__":
    sys.exit(0 if rerank() else 1)
