"""Real pages of installed packages keep the body that an independent extraction of their main text has."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

import pytest

from retrieve_cli.documents.html.reading import parse
from retrieve_cli.documents.limits import Limits
from retrieve_cli.errors import BadDocument

PAGES = sorted(path for path in islice(Path("/usr/share/doc").rglob("*.html"), 400) if path.is_file())[:25]


def triples(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"[^\W\d_]{2,}", text)
    return set(zip(words, words[1:], words[2:], strict=False))


@pytest.mark.skipif(not PAGES, reason="no HTML pages are installed below /usr/share/doc")
def test_no_part_of_the_body_is_lost() -> None:
    pytest.importorskip("selectolax")
    trafilatura = pytest.importorskip("trafilatura", exc_type=ImportError)
    read = 0
    for page in PAGES:
        content = page.read_bytes()
        try:
            text = parse(content, name=page.name, limits=Limits(), on_page=lambda number: None).text
        except BadDocument:
            continue
        expected = triples(trafilatura.extract(content, favor_precision=True, include_tables=False) or "")
        if len(expected) > 50:
            read += 1
            assert len(expected & triples(text)) >= 0.9 * len(expected), page
    if not read:
        pytest.skip("no installed page has a main text")
