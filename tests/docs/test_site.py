"""The documentation is a site: every page is in it, and every link within it leads somewhere."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from samples import ROOT


def built(folder: Path, *, config: Path) -> subprocess.CompletedProcess[str]:
    """`make docs`, with the site in a folder of its own."""
    pytest.importorskip("mkdocs", reason="mkdocs-material is not installed: pip install -e '.[dev]'")
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", config, "-d", folder / "site"],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
    )


def test_the_site_is_built_without_a_dead_link(tmp_path: Path) -> None:
    done = built(tmp_path, config=ROOT / "mkdocs.yml")
    assert done.returncode == 0, done.stderr
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")}
    assert pages == {page.stem for page in (tmp_path / "site").glob("*.html")} - {"404"}
