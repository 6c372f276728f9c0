"""The first items of a source as a build would read them, with nothing written (`retrieve build --dry-run`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import islice

from retrieve_cli.contracts import Json, Notice, Record, Refused, Source
from retrieve_cli.contracts.terms.figures import count, noun_for
from retrieve_cli.errors import cut
from retrieve_cli.frozen import Frozen
from retrieve_cli.ingest.items import mapping_of, pieces_of
from retrieve_cli.ingest.report import Notices, yaml_lines

_LOOKED_AT: Mapping[str, int] = {"catalog": 1000, "docs": 20}
"""Items that are read, by kind of source: documents take long to parse."""
_SHOWN, _REASONS = 2, 5


class Preview(Frozen):
    """The outcome of reading the first items of a source."""

    source: str
    kind: str
    records: int
    rejected: Mapping[str, int]
    """Reasons with the number of their items."""
    mapping: Mapping[str, Json]
    texts: list[str]
    """Texts of some records, as they would be embedded."""
    notices: list[str]

    @classmethod
    def of(cls, source: Source) -> Preview:
        """Read the first items of a source. Raises: UsageError: it cannot be read."""
        said: list[str] = []
        notices, reasons = Notices(said.append), Counter[str]()
        texts: dict[str, str] = {}
        for item in islice(source.scan(), _LOOKED_AT[source.kind]):
            for piece in pieces_of(item):
                if isinstance(piece, Notice):
                    notices.add(piece)
                elif isinstance(piece, Refused) or piece.id in texts:
                    reasons[piece.reason if isinstance(piece, Refused) else "duplicate id"] += 1
                elif isinstance(piece, Record):
                    notices.count(piece)
                    texts[piece.id] = piece.text if len(texts) < _SHOWN else ""
        notices.inferred = bool(mapping_of(source).get("inferred"))
        notices.finish(source.name, complete=True)
        shown = [text for text in texts.values() if text]
        return cls(source.name, source.kind, len(texts), reasons, mapping_of(source), shown, said)

    def to_json(self) -> dict[str, Json]:
        fields = self.mapping.get("fields", ())
        how = "inferred" if self.mapping.get("inferred") else "configured" if fields else "known"
        return {
            "name": self.source,
            "mapping": how,
            "fields": dict(fields),
            "reading": list(self.mapping.get("reading", ())),
            "records": self.records,
            "rejected": dict(self.rejected),
            "texts": self.texts,
            "notices": self.notices,
        }

    def sentences(self) -> list[str]:
        """The same for people."""
        rejected = sum(self.rejected.values())
        found = self.to_json()
        return [
            f"{self.source}: of the first {count(self.records + rejected, noun_for([self.kind]))}, {rejected} rejected",
            *(f"  {number} rejected: {cut(reason)}" for reason, number in Counter(self.rejected).most_common(_REASONS)),
            *(f"  {sentence}" for sentence in self.mapping.get("reading", ())),
            f"  fields: {found['mapping']}{', as in config.yaml:' if found['fields'] else ' names'}",
            *(yaml_lines(self.mapping) if found["fields"] else ()),
            *(f"  {notice}" for notice in self.notices),
            *(f"  would be embedded: {line}" for text in self.texts for line in text.splitlines()),
        ]
