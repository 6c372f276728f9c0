from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from samples import ROOT

from retrieve_cli.errors import UsageError
from retrieve_cli.sources.chunking.sentences import sentence_starts
from retrieve_cli.sources.chunking.spacy_import import hide_package, starts_in


def test_sentences_begin_behind_a_full_stop() -> None:
    text = "It grew by 3.5 mm. Was it seen? Yes!  All saw it."
    assert [text[start:].split(maxsplit=1)[0] for start in sentence_starts(text)] == ["It", "Was", "Yes!", "All"]


@pytest.mark.parametrize(
    ("text", "starts"),
    [
        ("Mr. Day saw it, e.g. here. Then (so!) it ended.", ["Mr.", "The", "it "]),
        ('He said "no." Then he went (far.) Home...', ["He ", "The", "Hom"]),
        ("See a.example.org/xy. Next end.Begin at 37 °C. v.s. 3 mg/d. a", ["See", "Nex", "Beg", "v.s"]),
        ("One.\nTwo.  Three... four. `Five`", ["One", "\nTw", " Th", "`Fi"]),
    ],
)
def test_english_needs_no_package(monkeypatch: pytest.MonkeyPatch, text: str, starts: list[str]) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    assert [text[start : start + 3] for start in sentence_starts(text)] == starts


def test_english_has_the_boundaries_of_spacy() -> None:
    pytest.importorskip("spacy")
    folder = ROOT / "docs"
    expected: set[tuple[str, int]] = set()
    found: set[tuple[str, int]] = set()
    for page in sorted(folder.glob("*.md")):
        for number, text in enumerate(re.split(r"\n\s*\n", page.read_text("utf-8"))):
            name = f"{page.name} {number}"
            expected |= {(name, start) for start in (0, *starts_in(text, "en"))}
            found |= {(name, start) for start in sentence_starts(text)}
    assert len(found ^ expected) <= 0.002 * len(expected)


def test_the_language_can_be_chosen() -> None:
    pytest.importorskip("spacy")
    assert len(sentence_starts("Das ist z. B. eins. Das ist zwei.", "de")) == 2


def test_a_language_that_spacy_does_not_know_is_refused() -> None:
    pytest.importorskip("spacy")
    with pytest.raises(UsageError, match="`qq`"):
        sentence_starts("One. Two.", "qq")


PROSE = "One more sentence stands here. " * 40_000


def test_a_text_longer_than_spacy_takes_is_read_in_parts() -> None:
    starts = sentence_starts(PROSE)
    assert len(starts) == 40_000
    assert all(PROSE.startswith("One", start) for start in starts[::997])


@pytest.mark.parametrize("unit", ["#", "_", "'s", ":)", "\N{GRINNING FACE}", "x"])
def test_a_long_run_of_marks_takes_no_longer_than_as_many_sentences(unit: str) -> None:
    def cpu_s(text: str) -> float:
        began = time.process_time()
        assert sentence_starts(text)
        return time.process_time() - began

    marks = f"One. Two {unit * 40_000} two. Three."
    assert [marks[start : start + 3] for start in sentence_starts(marks)] == ["One", "Two", "Thr"]
    assert cpu_s(marks) < cpu_s(PROSE)


def python(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_torch_is_not_imported_for_sentences_and_can_be_used_afterwards() -> None:
    program = """
import sys
from retrieve_cli.sources.chunking.sentences import sentence_starts
print(sentence_starts("One. Two.", "de"), "torch" in sys.modules)
import torch
print(int(torch.ones(3).sum()), sentence_starts("One. Two. Three.", "de"))
"""
    assert python(program) == "[0, 5] False\n3 [0, 5, 10]\n"


def test_a_package_is_hidden_from_one_thread_and_no_longer_than_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rarely_imported.py").write_text("VALUE = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    with hide_package("rarely_imported"), ThreadPoolExecutor(1) as other:
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("rarely_imported")
        assert other.submit(importlib.import_module, "rarely_imported").result().VALUE == 3
    del sys.modules["rarely_imported"]
    assert importlib.import_module("rarely_imported").VALUE == 3


def test_where_torch_was_imported_before_spacy_sees_it() -> None:
    pytest.importorskip("torch")
    program = """
import torch
from retrieve_cli.sources.chunking.sentences import sentence_starts
import sys
print(sentence_starts("One. Two.", "de"), sys.modules["thinc.compat"].has_torch)
"""
    assert python(program) == "[0, 5] True\n"
