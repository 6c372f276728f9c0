"""A small model of tokens and of term weights."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the model."""
    from splade_models import save_masked  # which loads torch

    return save_masked(tmp_path_factory.mktemp("models") / "tiny")
