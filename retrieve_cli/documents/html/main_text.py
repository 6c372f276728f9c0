"""The main text of a page without structure, as trafilatura recognises it."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from retrieve_cli.errors import BadDocument, shortened

_LONGEST = 2**18
_MOST_NODES = 4_000
"""Size of the largest page that is examined: trafilatura's time is not in proportion to it."""
_WORDS = 3
_SHARE = 0.8
"""Share of its word triples by which a text belongs to the main text."""


class MainText:
    """The main text of a page; empty if trafilatura recognises none."""

    def __init__(self, source: str, *, nodes: int) -> None:
        text = _extracted(source) if len(source) <= _LONGEST and nodes <= _MOST_NODES else ""
        self._triples = set(_triples(text))

    def __bool__(self) -> bool:
        return bool(self._triples)

    def holds(self, text: str) -> bool:
        """Return True if a text of at least three words belongs to the main text."""
        triples = list(_triples(text))
        return sum(triple in self._triples for triple in triples) > _SHARE * len(triples) if triples else False


def _triples(text: str) -> Iterator[tuple[str, ...]]:
    words = text.split()
    return zip(*(words[offset:] for offset in range(_WORDS)), strict=False)


def _extracted(source: str) -> str:
    """Return the main text of a page; empty if there is none.

    Raises:
        BadDocument: trafilatura is not installed completely.
    """
    try:
        from trafilatura import extract
    except ImportError as error:
        reason = shortened(str(error))
        raise BadDocument(f"trafilatura: {reason}", hint="pip install 'retrieve-cli[documents]'") from error
    logging.getLogger("trafilatura").propagate = False  # its messages are about pages without text, as here some are
    try:
        return extract(source, favor_recall=True, include_comments=False) or ""
    except Exception:  # noqa: BLE001  it may fail on any page from outside; without it nothing is removed
        return ""
