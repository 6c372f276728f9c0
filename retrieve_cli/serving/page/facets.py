"""Facets of an answer as checkboxes, and the conditions in force as chips."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError
from retrieve_cli.queries.filters import Condition
from retrieve_cli.records.column_values import known_as
from retrieve_cli.records.offered import offered
from retrieve_cli.search.access import columns_seen
from retrieve_cli.serving.page.address import Address
from retrieve_cli.serving.page.rendering import cut

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask
    from retrieve_cli.storage.generation import Generation

_OPEN = 6
"""Values of a field that are shown at once; the rest is behind `more`."""
_MOST = 24
_LONGEST = 60
_OPEN_FIELDS = 4
"""Fields that are unfolded from the start."""


class Box(NamedTuple):
    """A value of a field, to be ticked."""

    label: str
    filter: str
    """The condition that it stands for, as the filter language writes it."""
    matches: int
    ticked: bool


class Facet(NamedTuple):
    """A field, and its values among the matches."""

    label: str
    boxes: Sequence[Box]
    more: Sequence[Box]
    unfolded: bool


class Chip(NamedTuple):
    """A condition in force, and the address without it."""

    text: str
    href: str


def fields_of(generation: Generation, visible: Mask | None) -> list[str]:
    """Return the fields that the page offers as facets; values of records that are not visible do not count."""
    try:
        return generation.once(_fields) if visible is None else offered(columns_seen(generation, visible))
    except UsageError:  # an index of an earlier version has nothing to filter by
        return []


def _fields(generation: Generation) -> list[str]:
    return offered(columns_seen(generation, None))


def facets(counts: Mapping[str, Sequence[Mapping[str, Json]]], address: Address) -> list[Facet]:
    """Return the facets of an answer; a ticked value is shown even if nothing matches with it any more."""
    ticked = dict(_ticked(address))
    found: list[Facet] = []
    for field, values in counts.items():
        boxes = [_box(field, str(value["value"]), int(value["count"]), ticked) for value in values]
        held = {box.filter for box in boxes}
        boxes += [
            Box(cut(value, _LONGEST), written, 0, ticked=True)
            for (named, value), written in ticked.items()
            if named == known_as(field) and str(Condition(field, "=", (value,))) not in held and written not in held
        ]
        boxes.sort(key=lambda box: not box.ticked)
        most = max(_OPEN, sum(box.ticked for box in boxes))
        if boxes:
            unfolded = len(found) < _OPEN_FIELDS or boxes[0].ticked
            found.append(Facet(label_of(field), boxes[:most], boxes[most:_MOST], unfolded))
    return found


def _box(field: str, value: str, count: int, ticked: Mapping[tuple[str, str], str]) -> Box:
    """Return the checkbox of a value: one that is ticked stands for the condition as it was written."""
    folded = value.casefold()
    same = (text for (name, held), text in ticked.items() if (name, held.casefold()) == (known_as(field), folded))
    written = next(same, None)
    return Box(cut(value, _LONGEST), written or str(Condition(field, "=", (value,))), count, written is not None)


def _ticked(address: Address) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield field and value of each condition that a checkbox can stand for, and how it is written."""
    for condition, text in address.read():
        plain = condition.operator == "=" and not condition.negated and not condition.globs
        if plain and len(condition.values) == 1:
            yield (known_as(condition.field), condition.values[0]), text


def chips(address: Address) -> list[Chip]:
    """Return the conditions in force."""
    return [Chip(cut(text, _LONGEST), address.without(text).url()) for text in address.filters]


def label_of(field: str) -> str:
    """Return the name of a field in words: `supportingData.bodySite` is body site."""
    name = field.rpartition(".")[2]
    words = "".join(
        f" {char.lower()}" if char.isupper() and not before.isupper() else " " if char in "_-" else char
        for before, char in zip(f" {name}", name, strict=False)
    )
    text = cut(words.strip() or field, _LONGEST)
    return text[:1].upper() + text[1:]
