"""Judged queries of the sample tools."""

from pathlib import Path

import pytest
from samples import write_catalog

GOLD = [
    {"query": "lungs in CT", "relevant": ["lungs"]},
    {"query": "counts cells", "relevant": ["cells"]},
    {"query": "brain", "relevant": ["align"]},
]


@pytest.fixture
def gold(index: Path, tmp_path: Path) -> Path:
    """Judgments of three queries of the index, of which one finds what is relevant late."""
    return write_catalog(tmp_path / "gold.jsonl", GOLD)
