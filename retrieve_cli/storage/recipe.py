"""The recipe of a generation: everything that changes an answer at build time, as one typed value.

In the manifest it is a flat object: the parts named here under their own names, every other key is the card of a
retriever. It is hashed as canonical JSON; device and batch size stay out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from retrieve_cli.contracts import Card, Json, ModelCard
from retrieve_cli.errors import IndexCorrupt

_HINT = "build again: retrieve build"


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that an index was built with."""

    sources: Mapping[str, Card] = field(default_factory=dict)
    """By kind of source, how its records are read."""
    chunking: Mapping[str, Card] = field(default_factory=dict)
    """By kind of source, how its records are cut."""
    retrievers: Mapping[str, Card] = field(default_factory=dict)
    """By name, what changes the answers of each retriever of the index."""
    encoder: Card | None = None
    """The card of the encoder; None if the index has no vectors."""
    columns: Json = None
    """Which values of a record can be filtered by; None before there were filters."""
    graph: Card | None = None
    """Which edges there are; None before there were any."""
    tokens: Card | None = None
    """The card of packed token vectors; None if they are not kept."""

    @property
    def encoder_card(self) -> ModelCard:
        """The card of the encoder.

        Raises:
            IndexCorrupt: there is none, or not a whole one.
        """
        try:
            card = ModelCard(**(self.encoder or {}))
            if not isinstance(card.dim, int) or not isinstance(card.family, str):
                raise TypeError(f"dim {card.dim!r}, family {card.family!r}")
        except TypeError as error:
            raise IndexCorrupt(f"the recipe has no whole encoder card ({error})", hint=_HINT) from error
        return card

    def to_json(self) -> dict[str, Json]:
        """Return the object that the manifest holds."""
        optional = {name: getattr(self, name) for name in _OPTIONAL}
        return {
            "sources": self.sources,
            "chunking": self.chunking,
            **{name: value for name, value in optional.items() if value is not None},
            **self.retrievers,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Json]) -> Recipe:
        """Return the recipe of an object that `to_json` made.

        Raises:
            TypeError, KeyError: it is not one.
        """
        cards = {name: card for name, card in value.items() if name not in NAMED}
        for card in (value["sources"], value["chunking"], *cards.values()):
            if not isinstance(card, Mapping):
                raise TypeError(f"{card!r} is not a card")
        optional = {name: value.get(name) for name in _OPTIONAL}
        return cls(value["sources"], value["chunking"], cards, **optional)


_OPTIONAL = ("encoder", "columns", "graph", "tokens")
NAMED = frozenset({"sources", "chunking", *_OPTIONAL})
"""Keys of the object that are not the name of a retriever."""


def encoder_json(card: ModelCard) -> Card:
    """Return a model card as the recipe holds it."""
    return asdict(card)
