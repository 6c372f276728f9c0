"""Answers to agents: share of nDCG@10 without limit that MCP's `search` reaches within 500, 1,000 and 2,000 tokens.

python -m benchmarks.agents [--queries N] [--tokenizer FILE] [--config FILE] [COLLECTION ...]

Each judged query is a call of the tool, whose answer is counted as a client passes it on: content, or structured
content as JSON. A result counts if the answer has it, with its id and title. `--tokenizer` is the tokenizer.json of the
model that reads the answers; by default it is that of the index.
"""

import argparse
import os
import shutil
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import ir_measures
from ir_measures import nDCG

from benchmarks.process import DATA, ENVIRONMENT, RETRIEVE, WORK, run
from benchmarks.quality import qrels
from retrieve_cli.api.asked import read_asked
from retrieve_cli.api.live import LiveIndex
from retrieve_cli.config.loading import load
from retrieve_cli.evaluation.judgments import Topic, read_beir
from retrieve_cli.search.answer import Answer
from retrieve_cli.server.mcp.outcomes import CHOICES, answer_of, compact_json
from retrieve_cli.server.mcp.searching import search
from retrieve_cli.server.mcp.tools import counter_of
from retrieve_cli.storage.store import Store

COLLECTIONS = ("scifact", "toollinkos", "sealtools")
BUDGETS = (500, 1000, 2000)
CHANNELS = ("content", "structured")
FLOOR, HELD = 0.95, 1000
"""Least share that is to be reached, and the budget at which it is."""
_QUERIES = 100


class Shown(NamedTuple):
    """An answer within a budget."""

    ids: list[str]
    tokens: int
    texts: float
    """Share of the results that are shown with text."""


def ask(live: LiveIndex, query: str, *, most: int, channel: str) -> Shown:
    """Return the results of a call of the tool, and what they take of the channel that carries the texts."""
    channels = CHOICES[channel]
    outcome = search(live, {"query": query, "max_tokens": most}, tenant=None, channels=channels)
    answer = answer_of(outcome, channels)
    sent = answer.content[0].text if channel == "content" else compact_json(answer.structured_content)
    results = outcome.structured["results"]
    body = outcome.text.count("\n   ") if channel == "content" else sum(bool(each["text"]) for each in results)
    ids = [str(each["id"]).rpartition("#")[0] for each in results]
    return Shown(ids, counter_of(live.index)(sent), min(body / max(len(ids), 1), 1.0))


def unlimited(live: LiveIndex, query: str) -> list[str]:
    """Return the records of the whole answer to a query."""
    (answer,) = live.answer([read_asked({"query": query, "limit": 10})])
    assert isinstance(answer, Answer), answer
    return [result.doc_id for result in answer.results]


def ndcg(collection: str, runs: dict[str, list[str]]) -> float:
    """Return nDCG@10 of ranked records by query."""
    judged = [each for each in qrels(collection) if each.query_id in runs]
    scored = {query: {name: 1.0 / rank for rank, name in enumerate(ids, 1)} for query, ids in runs.items()}
    return float(
        ir_measures.calc_aggregate([nDCG @ 10], judged, {q: s or {"-": 0.0} for q, s in scored.items()})[nDCG @ 10]
    )


def measure(collection: str, live: LiveIndex, topics: Sequence[Topic]) -> bool:
    """Print the figures of a collection; return True if each channel reaches the floor."""
    whole = ndcg(collection, {topic.id: unlimited(live, topic.text) for topic in topics})
    print(f"{collection}: {len(topics)} queries, nDCG@10 without limit {whole:.4f}", flush=True)
    good = True
    for channel in CHANNELS:
        for most in BUDGETS:
            shown = {topic.id: ask(live, topic.text, most=most, channel=channel) for topic in topics}
            share = ndcg(collection, {name: each.ids for name, each in shown.items()}) / whole
            tokens = [each.tokens for each in shown.values()]
            assert max(tokens) <= most, (collection, channel, most, max(tokens))
            results = statistics.mean(len(each.ids) for each in shown.values())
            texts = statistics.mean(each.texts for each in shown.values())
            good &= most != HELD or share >= FLOOR
            print(
                f"  {channel:10} {most:5} tokens: {share:6.1%} of it; {results:.1f} results, {texts:4.0%} with text, "
                f"{statistics.mean(tokens):.0f} tokens, at most {max(tokens)}",
                flush=True,
            )
    return good


def agents(names: Sequence[str], *, queries: int, tokenizer: Path | None, config: Path | None) -> bool:
    """Build the collections and measure them; return True if each reaches the floor."""
    flags = () if config is None else ("--config", str(config.resolve()))
    if tokenizer is not None:
        os.environ["RETRIEVE_BUDGET__TOKENIZER"] = str(tokenizer.resolve())
    reached = []
    for name in names:
        artifacts = WORK / f"agents-{name}"
        shutil.rmtree(artifacts, ignore_errors=True)
        corpus = DATA / name / "corpus.jsonl"
        run(
            (*RETRIEVE, "build", "--catalog", str(corpus), "--artifacts", str(artifacts), *flags),
            environment=ENVIRONMENT,
        )
        live = LiveIndex(Store(artifacts), load(config))
        topics, _ = read_beir(DATA / name, "test")
        reached.append(measure(name, live, topics[:: max(len(topics) // queries, 1)][:queries]))
    return all(reached)


def main() -> int:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("collections", nargs="*", default=list(COLLECTIONS))
    parser.add_argument("--queries", type=int, default=_QUERIES)
    parser.add_argument("--tokenizer", type=Path)
    parser.add_argument("--config", type=Path)
    given = parser.parse_args()
    good = agents(given.collections, queries=given.queries, tokenizer=given.tokenizer, config=given.config)
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
