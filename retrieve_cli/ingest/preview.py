"""The first items of a source as a build would read them, with nothing written (`retrieve build --dry-run`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import islice

from retrieve_cli.contracts import Json, Notice, Refused, Source
from retrieve_cli.contracts.terms.figures import count, noun_for
from retrieve_cli.errors import cut
from retrieve_cli.ingest.items import mapping_of, pieces_of
from retrieve_cli.ingest.notices import Notices

_LOOKED_AT: Mapping[str, int] = {"catalog": 1000, "docs": 20}
"""Items that are read, by kind of source: documents take long to parse."""
_SHOWN, _REASONS = 2, 5
"""Texts and reasons that are shown."""


def preview(source: Source) -> tuple[dict[str, Json], list[str]]:
    """Read the first items of a source; return the outcome as JSON, and as sentences for people.

    Raises:
        UsageError: it cannot be read.
    """
    said: list[str] = []
    notices, reasons = Notices(said.append), Counter[str]()
    texts: dict[str, str] = {}
    for item in islice(source.scan(), _LOOKED_AT[source.kind]):
        for piece in pieces_of(item):
            if isinstance(piece, Notice):
                notices.add(piece)
            elif isinstance(piece, Refused):
                reasons[piece.reason] += 1
            elif piece.id in texts:
                reasons["duplicate id"] += 1
            else:
                notices.count(piece)
                texts[piece.id] = piece.text if len(texts) < _SHOWN else ""
    notices.finish(source, complete=True)
    mapping, shown = mapping_of(source), [text for text in texts.values() if text]
    fields = dict(mapping.get("fields", ()))
    found: dict[str, Json] = {
        "name": source.name,
        "mapping": "inferred" if mapping.get("inferred") else "configured" if fields else "known",
        "fields": fields,
        "reading": list(mapping.get("reading", ())),
        "records": len(texts),
        "rejected": dict(reasons),
        "texts": shown,
        "notices": said,
    }
    read = count(len(texts) + reasons.total(), noun_for([source.kind]))
    return found, [
        f"{source.name}: of the first {read}, {reasons.total()} rejected",
        *(f"  {number} rejected: {cut(reason)}" for reason, number in reasons.most_common(_REASONS)),
        *said,
        *(f"would be embedded: {line}" for text in shown for line in text.splitlines()),
    ]
