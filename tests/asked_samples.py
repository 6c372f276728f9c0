"""Requests of every key, as JSON and as flags of the command line."""

from __future__ import annotations

import random
from typing import Any

QUERIES = ("segment lungs and ribs in CT", "brain MRI", "count cells", "zebra crossings", "volumes")
WORDS = [
    *" ".join(QUERIES).split(),
    *"[EXCLUDE:brain] [FILTER:license=MIT] Größe 細胞 \u202e \U0001f600 --help -k \"quoted\" 'x' $PATH ; \\ %s".split(
        " "
    ),
]
"""Words of other queries, which mean something to shells, terminals, parsers and the program itself."""
VALUES: dict[str, list[Any]] = {
    "limit": [1, 3, 7],
    "offset": [1, 2, 5],
    "sort": ["license", "name:desc", "nowhere"],
    "mode": ["bm25", "dense", "hybrid"],
    "retrievers": [["bm25"], ["dense", "bm25"]],
    "also": [["skull"], ["ribs", "mosaic"]],
    "like": [["brain"], ["lungs", "ribs"]],
    "not_like": [["brain"], ["lungs", "ribs"]],
    "filters": [["license=MIT"], ["group=radiology", "dims>=3"]],
    "doc_ids": [["lungs", "ribs"], ["brain", "align"]],
    "tenant": ["acme", "globex"],
    "exact_words": [True, False],
    "chunks": [True, False],
    "context": [0, 1],
    "max_tokens": [30, 200],
    "min_score": [0.5, -1.0, "60%"],
    "min_confidence": [0.5],
    "rerank": [True, False],
    "expand": [True, False],
    "route": [True, False],
    "dependencies": [True],
    "boosts": [["license=MIT:2"]],
    "deadline_ms": [60000],
    "facets": [["license"], ["group", "modality"], ["nowhere"]],
    "explain": [True, False],
}
"""Values for records like those of `golden.corpora.TOOLS`. Some requests are errors, in the same words everywhere."""
_FLAGS = {
    "limit": "-k",
    "also": "--also",
    "filters": "--filter",
    "doc_ids": "--doc-id",
    "facets": "--facet",
    "boosts": "--boost",
    "dependencies": "--with-dependencies",
}


def generated(count: int, *, seed: int = 18) -> list[dict[str, Any]]:
    """Return requests of one to three keys each, every key in some of them."""
    chance, keys = random.Random(seed), sorted(VALUES)
    chosen = [{keys[place % len(keys)], *chance.sample(keys, chance.randrange(3))} for place in range(count)]
    asked = [{"query": _text(chance), **{key: chance.choice(VALUES[key]) for key in sorted(some)}} for some in chosen]
    return [{**one, "query": ""} if {"sort", "filters"} & {*one} and chance.random() < 0.3 else one for one in asked]


def _text(chance: random.Random) -> str:
    return chance.choice((chance.choice(QUERIES), " ".join(chance.sample(WORDS, chance.randint(1, 6)))))


def flags(request: dict[str, Any]) -> list[str]:
    """Return a request as flags of `retrieve query`, and its text as the last word."""
    words = []
    for key, value in request.items():
        name = _FLAGS.get(key, f"--{key.replace('_', '-')}")
        if key == "query" or (value is False and key == "explain"):
            continue
        if isinstance(value, bool):
            words.append(name if value else name.replace("--", "--no-"))
        elif key == "retrievers":
            words += [name, ",".join(value)]
        else:
            words += [word for one in (value if isinstance(value, list) else [value]) for word in (name, str(one))]
    return [*words, "--", request["query"]]
