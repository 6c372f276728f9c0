"""Share of the loss by a typo that corrections recover: nDCG@10 of queries without a typo, with one, and corrected.

One edit (a letter missing, added, wrong, or two in the wrong order) in one lower-case word of each query, of four
letters or more, that the collection has. BM25 alone, so that nothing but words counts. The collections are folders of
BEIR: `python benchmarks/typos.py FOLDER …`, each with corpus.jsonl, queries.jsonl and qrels/*.tsv.
"""

import json
import math
import random
import string
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import retrieve_cli as retrieve


def lines(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def judgments(folder: Path) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for path in sorted((folder / "qrels").glob("*.tsv")):
        for line in path.read_text("utf-8").splitlines()[1:]:
            query, record, grade = line.split("\t")[:3]
            if float(grade) > 0:
                found.setdefault(query, {})[record] = float(grade)
    return found


def ndcg(ids: Sequence[str], grades: dict[str, float], k: int = 10) -> float:
    def gain(values: Sequence[float]) -> float:
        return sum((2**value - 1) / math.log2(rank + 1) for rank, value in enumerate(values[:k], 1))

    return gain([grades.get(name, 0.0) for name in ids]) / gain(sorted(grades.values(), reverse=True))


def misspelled(word: str, chance: random.Random) -> str:
    """Return a word with one edit."""
    at, letter = chance.randrange(len(word)), chance.choice(string.ascii_lowercase)
    before, after = word[:at], word[at + 1 :]
    pair = min(at, len(word) - 2)
    swapped = word[:pair] + word[pair + 1] + word[pair] + word[pair + 2 :]
    return chance.choice([before + after, before + letter + word[at:], before + letter + after, swapped])


def measure(folder: Path) -> str:
    chance, grades = random.Random(17), judgments(folder)
    queries = {row["_id"]: row["text"] for row in lines(folder / "queries.jsonl") if row["_id"] in grades}
    with tempfile.TemporaryDirectory() as place:
        records = ({"id": row["_id"], "name": row.get("title") or "-", "description": row.get("text", "")}
                   for row in lines(folder / "corpus.jsonl"))  # fmt: skip
        config = Path(place, "config.yaml")
        config.write_text("dense: {enabled: false}\n")
        index = retrieve.build(records, artifacts=Path(place, "artifacts"), config=config)
        words = index.opened.indexes["bm25"]
        typed: dict[str, str] = {}
        for name, text in queries.items():
            known = [word for word in dict.fromkeys(text.split())
                     if len(word) > 3 and word.isascii() and word.isalpha() and word.islower()
                     if any(words.rows_with(term) for term in words.analyzer.terms(word))]  # fmt: skip
            if known and (wrong := misspelled(word := chance.choice(known), chance)) != word:
                typed[name] = text.replace(word, wrong, 1)

        def mean(texts: Sequence[str], *, exact: bool) -> float:
            answers = index.search_many(texts, limit=10, exact_words=exact)
            found = (
                ndcg([hit.doc_id for hit in answer], grades[name]) for name, answer in zip(typed, answers, strict=True)
            )
            return sum(found) / len(typed)

        asked = [queries[name] for name in typed]
        right, spelt = mean(asked, exact=True), mean(asked, exact=False)
        wrong, corrected = (mean(list(typed.values()), exact=exact) for exact in (True, False))
        changed = sum(bool(answer.question.corrections) for answer in index.search_many(asked, limit=1))
    share = f"{(corrected - wrong) / (right - wrong):.0%}" if right > wrong else "-"
    return (f"| {folder.name} | {len(typed)} | {right:.4f} | {wrong:.4f} | {corrected:.4f} | {share} "
            f"| {changed}: {right:.4f} → {spelt:.4f} |")  # fmt: skip


if __name__ == "__main__":
    print(
        "| collection | queries | nDCG@10 | with a typo | corrected | recovered | queries without a typo: corrected |"
    )
    print("|---|---|---|---|---|---|---|")
    for name in sys.argv[1:]:
        print(measure(Path(name)), flush=True)
