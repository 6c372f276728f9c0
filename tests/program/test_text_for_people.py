"""Text for people: without rich unless it is a table, and as it was written."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from samples import Program


def test_text_into_a_pipe_loads_no_rich(index: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)  # an import of it fails
    assert "lungs" in retrieve("query", "lungs", "--explain", "--timing").out


def test_a_word_between_colons_is_no_picture(index: Path, retrieve: Program, stdin: Callable[[str], None]) -> None:
    stdin("brain :dna: volumes\n")
    assert retrieve("query", "-").out.startswith("1: brain :dna: volumes\n")
