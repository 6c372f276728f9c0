"""Judged queries of the sample tools."""

import json
from pathlib import Path

import pytest

GOLD = [
    {"query": "lungs in CT", "relevant": ["lungs"]},
    {"query": "counts cells", "relevant": ["cells"]},
    {"query": "brain", "relevant": ["align"]},
]


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    """Judgments of three queries, of which one finds what is relevant late."""
    path = tmp_path / "gold.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in GOLD))
    return path
