"""Works that `retrieve web` merges from generated records whose works are known, beside simpler rules in the same run.

python -m benchmarks.web_merging [--seeds 10] [--records 3000]

Precision and recall count pairs of records of one work. The rules beside it: equal DOIs; equal titles without case and
punctuation; titles of a ratio of at least 0.93 (rapidfuzz). Times are CPU seconds of this process.
"""

import argparse
import re
import sys
import time
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))  # the generator is that of the tests

from websearch.generated import Made, generated, pairs

from retrieve_cli.contracts.works import Found
from retrieve_cli.websearch import ids
from retrieve_cli.websearch.merging import names, titles, works

PRECISION, RECALL = 0.999, 0.99
_LETTERS = re.compile(r"\W+")
Rule = Callable[[Sequence[Found]], Sequence[Hashable]]


def by_merging(found: Sequence[Found]) -> list[Hashable]:
    """Return the work of each record; a record that is only linked is one of its own."""
    of_source = {source: work.id for work in works.merge(found) for source in work.found_by}
    return [of_source.get(one.source, f"linked {number}") for number, one in enumerate(found)]


def by_doi(found: Sequence[Found]) -> list[Hashable]:
    """Return the DOI of each record."""
    dois = [next((one for one in item.ids if one.kind == "doi"), None) for item, _ in found]
    return [doi or number for number, doi in enumerate(dois)]


def by_title(found: Sequence[Found]) -> list[Hashable]:
    """Return the letters and digits of each title, in lower case."""
    return [_LETTERS.sub("", item.title).casefold() for item, _ in found]


def by_similar_title(found: Sequence[Found]) -> list[Hashable]:
    """Return a number for each set of titles that are similar, directly or by others."""
    from rapidfuzz import fuzz, process

    texts = [" ".join(item.title.casefold().split()) for item, _ in found]
    scores = process.cdist(texts, texts, scorer=fuzz.ratio, score_cutoff=titles.LEAST_RATIO, workers=1)
    labels: list[int] = list(range(len(texts)))
    for row in range(len(texts)):
        for other in scores[row].nonzero()[0]:
            if labels[other] != labels[row]:
                old, new = labels[other], labels[row]
                labels = [new if label == old else label for label in labels]
    return list(labels)


RULES: dict[str, Rule] = {
    "retrieve": by_merging,
    "equal DOI": by_doi,
    "equal title": by_title,
    "similar title": by_similar_title,
}


def measured(rule: Rule, made: Made) -> tuple[float, float, float]:
    """Return precision, recall and CPU seconds of a rule, with nothing remembered from another one."""
    for remembering in (titles.read, titles.spelling, ids.unversioned, ids.is_preprint, names.read):
        remembering.cache_clear()
    start = time.process_time()
    labels = rule(made.found)
    seconds = time.process_time() - start
    return (*pairs(made.works, labels), seconds)


def main() -> bool:
    """Print a line for each rule; return True if merging keeps its limits with every seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--records", type=int, default=3000)
    options = parser.parse_args()
    sets = [generated(seed, records=options.records) for seed in range(options.seeds)]
    by_merging(sets[0].found[:50])  # packages are loaded once
    print(f"{options.seeds} sets of {options.records:,} records, {len(set(sets[0].works)):,} works in the first")
    print("| rule | precision: least, median | recall: least, median | CPU s: median |\n|---|---:|---:|---:|")
    good = True
    for name, rule in RULES.items():
        precisions, recalls, seconds = zip(*(measured(rule, made) for made in sets), strict=True)
        columns = [f"{min(values):.5f}, {median(values):.5f}" for values in (precisions, recalls)]
        print(f"| {name} | {' | '.join(columns)} | {median(seconds):.3f} |", flush=True)
        if rule is by_merging:
            good = min(precisions) >= PRECISION and min(recalls) >= RECALL
    few = [measured(by_merging, generated(seed, records=300))[2] for seed in range(options.seeds)]
    print(f"merging 300 records: {1000 * median(few):.1f} ms")
    print(f"limits: precision {PRECISION}, recall {RECALL}  {'ok' if good else 'BELOW'}")
    return good


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
