"""Every regular expression of the package takes time in proportion to the text, whatever the text is.

Each is fed strings of 4,000 and 8,000 characters that it nearly matches; twice the text may take less than three
times the time. One that meets only short or trusted text is held to the same: what it meets changes, and nobody looks.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hostile.patterns import Unknown, Used, files, of_file

from retrieve_cli.api.choices import SEARCH
from retrieve_cli.contracts.terms.words import _patterns
from retrieve_cli.sources.chunking.markers import LABELS, Labels
from retrieve_cli.storage.records.globs import ignore_glob, path_glob, text_glob

TESTS = Path(__file__).resolve().parents[1]


def glob(pattern: re.Pattern[str]) -> Used:
    return Used(pattern.pattern, re.DOTALL, ("fullmatch",), "")


def labelled(labels: Labels) -> list[Used]:
    heading = [Used(labels.heading.pattern, re.IGNORECASE, ("fullmatch",), "")]
    first = [Used(first.pattern, re.IGNORECASE, ("match",), "") for first in (*labels.first.values(), labels.major)]
    return [*heading, *first, Used(labels.mark.pattern, re.IGNORECASE | re.MULTILINE, ("finditer",), "")]


KEY = r"s3cr\.t|s3cr%2Et|\"s3cr\.t"
NOTED = [rf"\b{name}\s*=\s*[\"'](\d+)" for name in ("SizeZ", "SizeT")] + [r"^slices=(\d+)", r"^frames=(\d+)"]
HEADS = SEARCH.rows["files"].schema["items"]["properties"].values()
PUT_TOGETHER: dict[str, list[Used]] = {
    "api/requests.py": [Used(head["pattern"], 0, ("search",), "") for head in HEADS],
    "sources/chunking/markers.py": [used for labels in LABELS.values() for used in labelled(labels)],
    "models/rerankers/cross_folder.py": [],  # kept in a list of the module, where they are found
    "contracts/terms/words.py": [Used(one.pattern, one.flags, ("finditer",), "") for one in _patterns()],
    "retrieval/queries/formats/dicom.py": [Used(pattern, re.MULTILINE, ("search",), "") for pattern in NOTED],
    "storage/records/globs.py": [
        *map(glob, map(text_glob, ("*a*b*a", "*.a", "?*?*a?", "a*" * 9))),
        *map(glob, map(path_glob, ("**/a*b/**/c*", "guides/**", "**/**/a.md", "*/a?/**/b/**/*"))),
        *map(glob, map(ignore_glob, ("*[a-z]*[!b]*\\*", "**/[]a]*/**/[^a]*b", "a*" * 9))),
    ],
    "http/secrets.py": [Used(KEY, 0, ("sub",), "")],
}
"""Patterns that are put together from other text when the program runs: examples of each, by file."""


def slow(used: Sequence[Used]) -> list[str]:
    """Return what each pattern is slow at; it is measured in a process of its own, for one may hang."""
    done = subprocess.run(
        [sys.executable, "-m", "hostile.growth"],
        input=json.dumps([[one.pattern, one.flags, one.methods] for one in used]),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    answers += [f"ended with {done.returncode}: {done.stderr}"] * (len(used) - len(answers))
    return [f"{one.where} {one.pattern}: {said}" for one, said in zip(used, answers, strict=True) if said]


@pytest.mark.parametrize("file", files())
def test_every_pattern_takes_time_in_proportion_to_the_text(file: str) -> None:
    used = [pattern for pattern in of_file(file) if isinstance(pattern, Used)]
    assert slow([*used, *PUT_TOGETHER.get(file, [])]) == []


def test_patterns_that_are_put_together_have_examples() -> None:
    unknown = {file for file in files() for pattern in of_file(file) if isinstance(pattern, Unknown)}
    assert unknown == set(PUT_TOGETHER)


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"(\s*)x\s*$", "search"),
        (r"(\d)\s*-?\s*d?", "fullmatch"),
        (r"(a+)+b", "match"),
        (r"(a|aa)+$", "match"),
        (r"<b>.*?</b>", "finditer"),
        (r"[!?]+\s", "finditer"),
        (r"(?:x\s*,)*\s*y|x*\sz", "search"),
        (r"(?s)\A```(?:json)?\s*\n(.*?)\n?```\Z", "match"),
    ],
)
def test_patterns_known_to_be_slow_are_told(pattern: str, method: str) -> None:
    assert len(slow([Used(pattern, 0, (method,), "")])) == 1
