"""Real pages of installed packages keep the body that an independent extraction of their main text has."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from retrieve_cli.errors import BadDocument
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.sources.formats.html.html_reading import parse

PAGES = sorted(path for path in islice(Path("/usr/share/doc").rglob("*.html"), 400) if path.is_file())[:25]


def words(text: str) -> Counter[str]:
    return Counter(re.findall(r"[^\W\d_]{2,}", text))


@pytest.mark.skipif(not PAGES, reason="no HTML pages are installed below /usr/share/doc")
def test_no_part_of_the_body_is_lost() -> None:
    pytest.importorskip("selectolax")
    trafilatura = pytest.importorskip("trafilatura", exc_type=ImportError)
    read = 0
    for page in PAGES:
        content = page.read_bytes()
        try:
            text = parse(content, name=page.name, limits=ParsingLimits(), on_page=lambda number: None).text
        except BadDocument:
            continue
        expected = words(trafilatura.extract(content, favor_precision=True, include_tables=False) or "")
        if expected.total() > 50:
            read += 1
            assert (expected & words(text)).total() >= 0.98 * expected.total(), page
    if not read:
        pytest.skip("no installed page has a main text")
