"""Tools found by agents: hits, tokens an answer, and what is kept of them, beside what agents do today.

python -m benchmarks.agents [--queries N] [--tokenizer FILE] [--alone] [SET ...]

The function catalogs and software registries of `../shared/data` become definitions of tools (`tool_definitions`), one
index a set and one of all sets (`pooled`). Every query is a call of MCP's `search_tools`, counted as a client passes it
on: the content, with the tokenizer.json of the model that reads it (`--tokenizer`) or a bound that is never below. Of
the judged queries every n-th is asked, at most `--queries` a set. Printed as tables of Markdown: hits and nDCG@5 beside
BM25, vectors, RRF of both, and a regular expression of the words of the query over names and descriptions; the tokens
of all tools in the prompt; the share of nDCG@10 that an answer of ten keeps within few tokens; and an agent that
searches at most three times. Ends with 1 if a limit is missed.
"""

import argparse
import json
import os
import re
import shutil
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import ir_measures
from ir_measures import Success, nDCG

from benchmarks.process import DATA, ENVIRONMENT, RETRIEVE, WORK, run
from benchmarks.tool_definitions import SETS, definitions, key
from retrieve_cli.api.asked import read_asked
from retrieve_cli.api.live import LiveIndex
from retrieve_cli.config.loading import load
from retrieve_cli.evaluation.judgments import Topic, read_beir
from retrieve_cli.frozen import replace
from retrieve_cli.search.answer import Answer
from retrieve_cli.server.mcp.outcomes import compact_json
from retrieve_cli.server.mcp.tool_search import search_tools
from retrieve_cli.server.mcp.tools import counter_of
from retrieve_cli.storage.store import Store

POOLED = "pooled"
BUDGETS = (250, 500, 1000, 2000)
FLOOR, HELD = 0.95, 1000
"""Least share of nDCG@10 that is to be kept, and the tokens within which it is."""
MOST_TOKENS = 400
"""Most tokens of an answer of five tools."""
SEARCHES = 3
MEASURES = (Success @ 1, Success @ 3, Success @ 5, nDCG @ 5)
_QUERIES = 100
_WORD = re.compile(r"\w{3,}")

Ranked = Callable[[str], list[str]]
"""The ids of the first tools for a query, best first."""


class ToolSet(NamedTuple):
    """An open index of tools, and the queries that are asked."""

    name: str
    live: LiveIndex
    topics: Sequence[Topic]
    tools: Sequence[Mapping[str, Any]]

    def count(self, text: str) -> int:
        return counter_of(self.live.index)(text)

    def call(self, task: str, **arguments: Any) -> tuple[list[dict[str, Any]], int]:
        """Return the tools of an answer of `search_tools`, and its tokens."""
        outcome = search_tools(self.live, {"task": task, **arguments}, tenant=None)
        return list(outcome.structured["tools"]), self.count(outcome.text)

    def ids(self, query: str, live: LiveIndex, **choices: Any) -> list[str]:
        (answer,) = live.answer([read_asked({"query": query, "limit": 10, **choices})])
        assert isinstance(answer, Answer), answer
        return [result.doc_id for result in answer.results]


def by_pattern(tools: Sequence[Mapping[str, Any]]) -> Ranked:
    """Return the tool search of clients: words of the query as alternatives, most matches first."""
    texts = [f"{tool['name']} {tool['description']}" for tool in tools]

    def ranked(query: str) -> list[str]:
        words = dict.fromkeys(_WORD.findall(query))
        if not words:
            return []
        pattern = re.compile("|".join(map(re.escape, words)), re.IGNORECASE)
        numbers = [len(pattern.findall(text)) for text in texts]
        best = sorted(range(len(tools)), key=lambda row: -numbers[row])[:10]
        return [str(tools[row]["id"]) for row in best if numbers[row]]

    return ranked


def measured(topics: Sequence[Topic], runs: Mapping[str, Sequence[str]], measures: Iterable[Any]) -> list[float]:
    """Return means over the queries of runs by query."""
    judged = [ir_measures.Qrel(topic.id, doc, grade) for topic in topics for doc, grade in topic.grades.items()]
    scored = {query: {id_: 1.0 / rank for rank, id_ in enumerate(ids, 1)} or {"-": 0.0} for query, ids in runs.items()}
    measures = list(measures)
    found = ir_measures.calc_aggregate(measures, judged, scored)
    return [float(found[measure]) for measure in measures]


def hits(tools: ToolSet) -> dict[str, list[float]]:
    """Print hits and tokens of each way to search; return the measures by way."""
    plain = {"rerank": False, "expand": False}
    settings = tools.live.settings
    rrf = LiveIndex(tools.live.store, replace(settings, fusion=replace(settings.fusion, method="rrf")))
    called = {topic.id: tools.call(topic.text) for topic in tools.topics}
    runs: dict[str, dict[str, list[str]]] = {
        "search_tools": {query: [tool["key"] for tool in found] for query, (found, _) in called.items()}
    }
    ways: dict[str, Ranked] = {
        "BM25": lambda query: tools.ids(query, tools.live, mode="bm25", **plain),
        "vectors": lambda query: tools.ids(query, tools.live, mode="dense", **plain),
        "RRF": lambda query: tools.ids(query, rrf, **plain),
        "regular expression": by_pattern(tools.tools),
    }
    runs |= {way: {topic.id: ranked(topic.text) for topic in tools.topics} for way, ranked in ways.items()}
    found = {way: measured(tools.topics, ids, MEASURES) for way, ids in runs.items()}
    for way, values in found.items():
        tokens = f"{statistics.mean(size for _, size in called.values()):.0f}" if way == "search_tools" else ""
        print(f"| {tools.name} | {way} | {' | '.join(f'{value:.3f}' for value in values)} | {tokens} |", flush=True)
    assert max(size for _, size in called.values()) <= MOST_TOKENS, tools.name
    whole = sum(tools.count(compact_json(_sent(tool))) for tool in tools.tools)
    print(f"| {tools.name} | all {len(tools.tools):,} tools in the prompt | | | | | {whole:,} |", flush=True)
    return found


def kept(tools: ToolSet) -> bool:
    """Print the share of nDCG@10 that an answer of ten keeps; return True if it is enough."""
    whole = {topic.id: tools.ids(topic.text, tools.live) for topic in tools.topics}
    (best,) = measured(tools.topics, whole, [nDCG @ 10])
    shares = []
    for most in BUDGETS:
        called = {topic.id: tools.call(topic.text, limit=10, max_tokens=most) for topic in tools.topics}
        assert max(size for _, size in called.values()) <= most, (tools.name, most)
        runs = {query: [tool["key"] for tool in found] for query, (found, _) in called.items()}
        shares.append(measured(tools.topics, runs, [nDCG @ 10])[0] / best)
    print(f"| {tools.name} | {best:.3f} | {' | '.join(f'{share:.1%}' for share in shares)} |", flush=True)
    return shares[BUDGETS.index(HELD)] >= FLOOR


def agent(tools: ToolSet) -> None:
    """Print the share of the right tools that one search has, and that an agent finds which searches again, without
    what it saw and with the words of the best description, until it has all."""
    shares: dict[str, list[float]] = {"once": [], "again": [], "wide": []}
    tokens: dict[str, list[int]] = {"once": [], "again": [], "wide": []}
    searches = []
    for topic in tools.topics:
        wanted = {doc for doc, grade in topic.grades.items() if grade > 0}
        seen: dict[str, None] = {}
        task, spent, number = topic.text, 0, 0
        while number < SEARCHES and (not number or not wanted <= seen.keys()):
            found, size = tools.call(task, **({"exclude": list(seen)} if seen else {}))
            number, spent = number + 1, spent + size
            seen |= dict.fromkeys(tool["key"] for tool in found)
            if number == 1:
                shares["once"].append(len(wanted & seen.keys()) / len(wanted))
                tokens["once"].append(size)
            if not found:
                break
            task = f"{topic.text} {found[0].get('description', '')}"
        shares["again"].append(len(wanted & seen.keys()) / len(wanted))
        tokens["again"].append(spent)
        searches.append(number)
        found, size = tools.call(topic.text, limit=5 * SEARCHES)
        shares["wide"].append(len(wanted & {tool["key"] for tool in found}) / len(wanted))
        tokens["wide"].append(size)
    cells = " | ".join(f"{statistics.mean(shares[way]):.3f} | {statistics.mean(tokens[way]):.0f}" for way in shares)
    print(f"| {tools.name} | {cells} | {statistics.mean(searches):.1f} |", flush=True)


def _sent(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a definition as a client puts it into the prompt."""
    return {name: tool[name] for name in ("name", "description", "inputSchema")}


def opened(name: str, parts: Sequence[str], queries: int) -> ToolSet:
    """Build an index of the tools of some sets, with the vectors of the pooled one, and return it open."""
    artifacts, source = WORK / f"agents-{name}", WORK / f"agents-{name}.jsonl"
    tools = [tool for part in parts for tool in definitions(part)]
    WORK.mkdir(parents=True, exist_ok=True)
    source.write_text("".join(json.dumps(tool) + "\n" for tool in tools), "utf-8")
    cache = WORK / f"agents-{POOLED}" / "cache"
    if cache.is_dir() and not artifacts.exists():
        shutil.copytree(cache, artifacts / "cache")
    run((*RETRIEVE, "build", "--catalog", str(source), "--artifacts", str(artifacts)), environment=ENVIRONMENT)
    topics = []
    for part in parts:
        judged, _ = read_beir(DATA / part, "test")
        judged = judged[:: max(len(judged) // queries, 1)][:queries]
        for topic in judged:
            grades = {key(part, doc): grade for doc, grade in topic.grades.items()}
            topics.append(replace(topic, id=f"{part}:{topic.id}", grades=grades))
    return ToolSet(name, LiveIndex(Store(artifacts), load(None)), topics, tools)


def agents(names: Sequence[str], *, queries: int, alone: bool) -> bool:
    """Print the tables of some sets, and of all of them together; return True if the limits are kept."""
    pooled = [] if alone else [opened(POOLED, names, queries)]
    sets = [*(opened(name, [name], queries) for name in names), *pooled]
    print(
        f"At most {queries} queries a set, every n-th.\n\n| tools | search | hit@1 | hit@3 | hit@5 | nDCG@5 | tokens |"
    )
    print("|---|---|--:|--:|--:|--:|--:|")
    found = [hits(tools) for tools in sets]
    budgets = " | ".join(f"{most:,} tokens" for most in BUDGETS)
    print(f"\n| tools | nDCG@10 | {budgets} |\n|---|--:|{'--:|' * len(BUDGETS)}")
    good = min([kept(tools) for tools in sets])
    print("\n| tools | one search | tokens | up to 3 searches | tokens | one of 15 | tokens | searches |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for tools in sets:
        agent(tools)
    means = {way: statistics.mean(each[way][1] for each in found) for way in found[0]}
    best = max(means, key=lambda way: means[way])
    print(f"\nmean hit@3: {', '.join(f'{way} {value:.3f}' for way, value in means.items())}")
    return good and best == "search_tools"


def main() -> int:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=list(SETS))
    parser.add_argument("--queries", type=int, default=_QUERIES)
    parser.add_argument("--alone", action="store_true", help="without the pooled index")
    parser.add_argument("--tokenizer", type=Path)
    given = parser.parse_args()
    if given.tokenizer is not None:
        os.environ["RETRIEVE_BUDGET__TOKENIZER"] = str(given.tokenizer.resolve())
    return 0 if agents(given.sets, queries=given.queries, alone=given.alone) else 1


if __name__ == "__main__":
    raise SystemExit(main())
