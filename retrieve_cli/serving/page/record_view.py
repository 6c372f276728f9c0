"""A record as its page shows it: fields, chunks, linked records and their picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote, urlencode

from retrieve_cli.api.contents import Chunks
from retrieve_cli.api.neighbourhood import Link as GraphLink, Neighbourhood
from retrieve_cli.contracts import Json
from retrieve_cli.output.pieces import title as plain_title
from retrieve_cli.search.pictures import drawable
from retrieve_cli.serving.page.address import record_url
from retrieve_cli.serving.page.rendering import Link, cut, leaves, link
from retrieve_cli.serving.page.view import Badge, badges_of, label_of, within
from retrieve_cli.terms import figures

CHUNKS = 30
"""Chunks of a page."""
_LONGEST = 20_000
"""Characters of a chunk that are shown."""
_VALUES, _FIELDS, _VALUE = 50, 100, 300
_LABEL = 24
"""Characters of a node's label."""
_WIDE, _HIGH = 260, 170
"""Units of the picture between the middle and the first ring."""
_CHAR = 6.6
"""Width of a character of a label."""
_COLOURS = 6


class Value(NamedTuple):
    """A value of a field."""

    text: str
    link: Link | None


class Field(NamedTuple):
    """A field of a record."""

    name: str
    values: Sequence[Value]


class Picture(NamedTuple):
    """A page of the document on which a chunk is."""

    page: int
    address: str


class Chunk(NamedTuple):
    """A chunk, its text line by line."""

    number: int
    heading: str
    place: str
    lines: Sequence[str]
    pictures: Sequence[Picture]


class RecordView(NamedTuple):
    """A record as its page shows it."""

    id: str
    title: str
    description: str
    place: str
    link: Link | None
    badges: Sequence[Badge]
    fields: Sequence[Field]
    chunks: Sequence[Chunk]
    extent: str
    before: str
    """Address of the chunks before; empty if there are none."""
    after: str


def record_view(found: Chunks, *, first: int, generation: str) -> RecordView:
    """Return a record of a generation with its chunks from the one numbered `first` on."""
    record, here = found.record, record_url(found.record["id"])
    last = first + len(found.rows)
    description = str(record["description"] or "")
    return RecordView(
        id=record["id"],
        title=cut(plain_title(str(record["name"]))) or cut(record["id"]),
        description=cut(description, 2000),
        place=cut(record["source"]),
        link=link(record["url"]),
        badges=badges_of(record),
        fields=list(_fields(record)),
        chunks=[_chunk(row, _pictures(record, row, generation)) for row in found.rows],
        extent=_extent(first, last, found.total),
        before=_from(here, max(first - CHUNKS, 0)) if first else "",
        after=_from(here, last) if last < found.total else "",
    )


def _extent(first: int, last: int, total: int) -> str:
    """Return how many chunks there are, and which of them are shown."""
    if last - first == total:
        return figures.count(total, "chunk")
    return f"Chunks {first} to {last - 1} of {total:,}" if last > first else f"No chunk {first}, of {total:,}"


def _from(here: str, first: int) -> str:
    return f"{here}{'&' if '?' in here else '?'}{urlencode({'from': first})}#text"


def _fields(record: Mapping[str, Json]) -> Iterator[Field]:
    """Yield the fields that have values; those of the metadata by their path."""
    own = {key: record.get(key) for key in ("license", "group", "keywords", "url", "kind")}
    nested = {**record["supporting_data"], **record["metadata"]}
    for count, (name, values) in enumerate((*leaves(own), *leaves(nested))):
        if count == _FIELDS:
            return
        shown = [Value(cut(value, _VALUE), link(value)) for value in values[:_VALUES]]
        more = [Value(f"and {len(values) - _VALUES} more", None)] if len(values) > _VALUES else []
        yield Field(label_of(name), [*shown, *more])


def _pictures(record: Mapping[str, Json], row: Mapping[str, Json], generation: str) -> list[Picture]:
    """Return the pages of a chunk that can be drawn."""
    here = f"/pictures/{quote(record['id'], safe='', errors='replace')}"
    values = {"chunk": row["index"], "generation": generation}
    return [Picture(page, f"{here}?{urlencode({'page': page, **values})}") for page in drawable(record, row)]


def _chunk(row: Mapping[str, Json], pictures: Sequence[Picture]) -> Chunk:
    text = str(row["text"])
    lines = text[:_LONGEST].replace("\r\n", "\n").replace("\t", "    ").split("\n")
    return Chunk(
        number=int(row["index"]),
        heading=cut(plain_title(row["section"] or "")) or f"Chunk {row['index']}",
        place=within(row),
        lines=[*lines, "…"] if len(text) > _LONGEST else lines,
        pictures=pictures,
    )


# ------------------------------------------------------------------------------------------------- graph


class Box(NamedTuple):
    """A node of the picture."""

    label: str
    title: str
    href: str
    here: bool
    x: float
    y: float
    left: float
    top: float
    width: float


class Arrow(NamedTuple):
    """An edge of the picture; `kind` is the number of its colour."""

    x1: float
    y1: float
    x2: float
    y2: float
    kind: int
    title: str


class Row(NamedTuple):
    """A link of the list."""

    words: str
    label: str
    href: str


class Around(NamedTuple):
    """The linked records of a record, as a picture and as a list."""

    box: str
    """The `viewBox` of the picture."""
    title: str
    nodes: Sequence[Box]
    edges: Sequence[Arrow]
    kinds: Sequence[str]
    rows: Sequence[Row]
    more: int
    """Number of links that are not listed."""


def around(found: Neighbourhood) -> Around:
    """Return the linked records as a picture and as a list."""
    kinds = sorted({edge.kind for edge in found.edges})
    spread = 1.0 if len(found.nodes) <= 12 else 1.5
    points = [(node.x * _WIDE / 1.2 * spread, node.y * _HIGH * spread) for node in found.nodes]
    nodes = []
    for number, (node, (x, y)) in enumerate(zip(found.nodes, points, strict=True)):
        label = cut(node.label, _LABEL)
        width = round(len(label) * _CHAR + 18, 1)
        href = "" if node.record_id is None else record_url(node.record_id)
        place = {"x": round(x, 1), "y": round(y, 1), "left": round(x - width / 2, 1), "top": round(y - 13, 1)}
        nodes.append(Box(label, cut(node.label), href, here=number == 0, width=width, **place))
    wide = max(abs(box.x) + box.width / 2 for box in nodes) + 12
    high = max(abs(box.y) for box in nodes) + 28
    edges = []
    for edge in found.edges:
        start, end = nodes[edge.source], nodes[edge.target]
        title = f"{start.title}: {edge.kind}: {end.title}"
        colour = kinds.index(edge.kind) % _COLOURS
        edges.append(Arrow(*_rim(start, end), *_rim(end, start), colour, title))
    rows = [_row(each) for each in found.links]
    return Around(
        box=f"{-wide:.0f} {-high:.0f} {2 * wide:.0f} {2 * high:.0f}",
        title=f"{figures.count(len(nodes) - 1, 'node')} around {nodes[0].title}",
        nodes=nodes,
        edges=edges,
        kinds=[kind.replace("_", " ") for kind in kinds],
        rows=rows,
        more=found.total - len(rows),
    )


def _row(each: GraphLink) -> Row:
    kind = each.kind.replace("_", " ")
    href = "" if each.record_id is None else record_url(each.record_id)
    return Row(f"{kind} →" if each.forward else f"← {kind}", cut(each.label), href)


def _rim(box: Box, other: Box) -> tuple[float, float]:
    """Return the point of a box at which the line to another one leaves it."""
    across, down = other.x - box.x, other.y - box.y
    reach = max(abs(across) / (box.width / 2 + 2), abs(down) / 15, 1.0)
    return round(box.x + across / reach, 1), round(box.y + down / reach, 1)
