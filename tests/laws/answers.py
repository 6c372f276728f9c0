"""Everything that an index answers, as values to compare: the law is that two indexes of the same sources agree."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from math import isclose
from typing import Any

from retrieve_cli.errors import RetrieveError

Request = tuple[str, dict[str, Any]]

TOLERANCE = 1e-6
VOLATILE = {"generation", "segments", "timings_ms", "timings", "artifacts", "built", "bytes", "files", "sha1", "at"}
"""Keys of what two folders of the same contents may differ in: place, time, and how files are cut into segments."""
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")

TEXTS = ("segment lungs", "brain MRI volume", "light-sheet microscopy", "the Größe", "Zug nach Passau", "rare 画像")
FACETS = ["license", "group", "size", "tenant", "topics", "domain", "keywords", "section", "field1"]
SHARED: list[Request] = [
    ("segment lungs", {"facets": FACETS}),
    ("segment lungs", {"facets": FACETS, "tenant": "acme"}),
    ("volume", {"filters": "license=MIT"}),
    ("volume", {"filters": ["!license=MIT", "size=*"]}),
    ("volume", {"filters": "size>=2"}),
    ("volume", {"filters": "size=2..12"}),
    ("volume", {"filters": "released>=2024"}),
    ("volume", {"filters": "released=2023-01..2024-01-15"}),
    ("volume", {"filters": "name=Tool *ung*"}),
    ("volume", {"filters": "section=Methods"}),
    ("volume", {"filters": "path=sub/*"}),
    ("volume", {"filters": "domain=neuro", "facets": ["domain", "topics"]}),
    ("volume", {"filters": "field3=Y"}),
    ("volume", {"filters": "licence=MIT"}),
    ("volume", {"filters": "license=MTI"}),
    ("lungs", {"tenant": "acme"}),
    ("lungs", {"tenant": "beta", "explain": True}),
    ("lungs", {"tenant": "nobody"}),
    ("segmnt lngs", {}),
    ("hart volme", {"exact_words": True}),
    ("microscpy", {"tenant": "beta"}),
    ("lungs", {"sort": "size:desc"}),
    ("lungs", {"sort": "released", "offset": 2, "k": 3}),
    ("lungs", {"boosts": ["license=MIT:2"]}),
    ("lungs", {"chunks": True, "context": 1, "k": 30}),
    ("lungs", {"also": ["brain heart"]}),
    ("lungs -brain", {}),
    ('"light-sheet" cells', {}),
    ("lungs [EXCLUDE:t1|t2]", {}),
    ("t3, t4", {}),
    ("lungs", {"expand": True, "explain": True, "k": 4}),
    ("lungs", {"dependencies": True, "k": 5}),
    ("lungs", {"route": True}),
    ("lungs", {"max_tokens": 40}),
    ("", {"like": "always"}),
    ("heart", {"like": "always", "not_like": "t2"}),
    ("", {"filters": "topics=io"}),
]
"""Requests of many kinds; each is sent in the default mode."""


def requests(modes: Sequence[str]) -> Iterator[Request]:
    """Yield what is asked: texts by each retriever alone and by all, and everything that a request may choose."""
    for text in TEXTS:
        for mode in modes:
            yield text, {"mode": mode, "k": 50}
            yield text, {"mode": mode, "explain": True, "tenant": "acme", "k": 3}
        yield text, {"k": 50, "explain": True}
        yield text, {"k": 5, "rerank": False, "expand": False}
    yield from SHARED


def answers(index: Any, modes: Sequence[str]) -> dict[str, Any]:
    """Return all answers of an index by request, and its contents."""
    found: dict[str, Any] = {}
    for text, choices in requests(modes):
        found[f"{text} {choices}"] = attempted(partial(search, index, text, choices))
    found["records"] = index.records()
    found["length"] = len(index)
    found["status"] = index.status
    for name in [row["id"] for row in found["records"]][::5]:
        found[f"record {name}"] = attempted(partial(index.record, name))
    return found


def search(index: Any, text: str, choices: dict[str, Any]) -> Any:
    return index.search(text, **choices).to_json()


def attempted(ask: Callable[[], Any]) -> Any:
    """Return an answer, or the message and the hint of an error."""
    try:
        return ask()
    except RetrieveError as error:
        return {"error": error.message, "hint": error.hint}


def differences(left: Any, right: Any, place: str, *, but: Collection[str] = ()) -> Iterator[str]:
    """Yield where two values differ, in other keys than these and the volatile ones."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in [*left, *(key for key in right if key not in left)]:
            if key not in VOLATILE and key not in but:
                yield from differences(left.get(key), right.get(key), f"{place}/{key}", but=but)
    elif isinstance(left, list | tuple) and isinstance(right, list | tuple):
        if len(left) != len(right):
            yield f"{place}: {len(left)} and {len(right)} items: {left!r:.400} and {right!r:.400}"
            return
        for number, pair in enumerate(zip(left, right, strict=True)):
            yield from differences(*pair, f"{place}/{number}", but=but)
    elif not same(left, right):
        yield f"{place}: {left!r:.200} and {right!r:.200}"


def same(left: Any, right: Any) -> bool:
    """Return whether two values are equal; numbers, and those in sentences, to the tolerance."""
    if isinstance(left, float) and isinstance(right, float):
        return isclose(left, right, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    if isinstance(left, str) and isinstance(right, str) and left != right:
        numbers = [[float(number) for number in _NUMBER.findall(text)] for text in (left, right)]
        close = all(isclose(*pair, rel_tol=1e-3) for pair in zip(*numbers, strict=False))
        return close and _NUMBER.sub("", left) == _NUMBER.sub("", right)
    return bool(left == right)
