"""Folders of documents with an index beside them."""

from collections.abc import Mapping
from pathlib import Path

import pytest


def indexed(folder: Path, documents: Mapping[str, bytes]) -> Path:
    """Write documents to `docs` in the folder, index them in `artifacts` by hashed vectors, and return the folder."""
    from retrieve_cli.cli.main import main

    (folder / "docs").mkdir()
    for name, content in documents.items():
        (folder / "docs" / name).write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RETRIEVE_ENCODER__KIND", "hashed")
        assert main(["build", "--docs-dir", str(folder / "docs"), "--artifacts", str(folder / "artifacts"), "-q"]) == 0
    return folder
