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


def test_a_dead_link_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Page\n\n[nowhere](nowhere.md)\n", "utf-8")
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    (tmp_path / "mkdocs.yml").write_text(text[: text.index("nav:\n  - Start")], "utf-8")
    assert built(tmp_path, config=tmp_path / "mkdocs.yml").returncode != 0


def test_the_continuous_integration_runs_what_the_contributors_page_says() -> None:
    script, page = (ROOT / ".ci" / "run").read_text("utf-8"), (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    for target in ("check", "test"):
        assert f"make {target}" in script
        assert f"`make {target}`" in page
