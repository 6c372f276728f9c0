"""The picture in docs/architecture.md: rooms on their floors, what they import, and the ways of a query and a record.

It is drawn from the list of rooms on that page, from the imports of every file and from the calls of the profiler.
`RETRIEVE_WRITE_GOLDEN=1 python -m pytest tests/program/test_architecture.py` writes it; without that a test compares.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from call_profile import Calls, room

WIDTH, MARGIN, HEIGHT, GAP, TOP = 1000, 20, 46, 26, 64
WAYS = (("query", "#2563eb", -0.4), ("record", "#15803d", 0.4))
"""Name and colour of each way, and how far from the middle of a box it runs, in widths."""
_LETTER = 6.1
"""Width of a letter of the small text."""


class Box(NamedTuple):
    """Place of a room in the picture."""

    x: float
    y: float
    width: float

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


def boxes(floors: Sequence[Sequence[str]]) -> dict[str, Box]:
    """Return the places of all rooms, the top floor first."""
    found = {}
    for row, rooms in enumerate(floors):
        width = min((WIDTH - 2 * MARGIN - 12 * (len(rooms) - 1)) / len(rooms), 420)
        left = (WIDTH - len(rooms) * width - 12 * (len(rooms) - 1)) / 2
        for column, name in enumerate(rooms):
            found[name] = Box(left + column * (width + 12), TOP + row * (HEIGHT + GAP), width)
    return found


def entrances(calls: Calls, rooms: Sequence[str]) -> list[tuple[str, str]]:
    """Return the calls by which a way enters each room for the first time, in their order."""
    seen: set[str] = set()
    found = []
    for caller, callee in calls.edges:
        here, there = room(caller), room(callee)
        seen.add(here)
        if there not in seen and there in rooms and here in rooms:
            found.append((here, there))
        seen.add(there)
    return found


def picture(
    floors: Sequence[Sequence[str]],
    sentences: dict[str, str],
    imports: Sequence[tuple[str, str]],
    ways: Sequence[Calls],
) -> str:
    """Return the picture as SVG. `imports` are pairs of rooms, `ways` the calls of a query and of a record."""
    places = boxes(floors)
    height = TOP + len(floors) * (HEIGHT + GAP)
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif"'
    label = 'font-size="14" fill="#0f172a" role="img" aria-label="Rooms of the package, their imports, and two ways">'
    lines = [f"{svg} {label}", f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>']
    entered = [entrances(calls, list(places)) for calls in ways]
    lines += _imports(places, imports)
    for (_, colour, side), steps in zip(WAYS, entered, strict=True):
        lines += [_line(places[here], places[there], colour, side) for here, there in steps]
    lines += _rooms(places, sentences)  # over the lines, so that their texts can be read
    for (name, colour, side), steps in zip(WAYS, entered, strict=True):
        lines += _numbers(places, steps, colour, side)
        lines.append(
            f'<text x="{WIDTH / 2 + 400 * side:.0f}" y="34" text-anchor="middle" fill="{colour}">{name}</text>'
        )
    return "\n".join([*lines, "</svg>", ""])


def _imports(places: dict[str, Box], imports: Sequence[tuple[str, str]]) -> Iterator[str]:
    for here, there in sorted(imports):
        a, b = places[here], places[there]
        yield (
            f'<path d="M{a.middle:.0f} {a.y + HEIGHT:.0f} L{b.middle:.0f} {b.y:.0f}" stroke="#e2e8f0" fill="none">'
            f"<title>{here} imports {there}</title></path>"
        )


def _rooms(places: dict[str, Box], sentences: dict[str, str]) -> Iterator[str]:
    for name, box in places.items():
        yield (
            f'<rect x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" height="{HEIGHT}" rx="6" fill="#f8fafc" '
            'stroke="#64748b"/>'
        )
        text = sentences.get(name, "")
        most = int((box.width - 24) / _LETTER)
        shown = text if len(text) <= most else text[: text.rfind(" ", 0, most)].rstrip(",;:") + "…"
        yield f'<text x="{box.middle:.0f}" y="{box.y + 19:.0f}" text-anchor="middle" font-weight="600">{name}</text>'
        yield (
            f'<text x="{box.middle:.0f}" y="{box.y + 36:.0f}" text-anchor="middle" font-size="11.5" fill="#475569">'
            f"{escape(shown)}</text>"
        )


def _ends(a: Box, b: Box, side: float) -> tuple[float, float, float, float]:
    """Return where a line from one box to another begins and ends."""
    down = a.y < b.y
    return a.middle + side * a.width, a.y + HEIGHT * down, b.middle + side * b.width, b.y + HEIGHT * (not down)


def _line(a: Box, b: Box, colour: str, side: float) -> str:
    x, start, to, end = _ends(a, b, side)
    bend = (start + end) / 2
    path = f"M{x:.0f} {start:.0f} C{x:.0f} {bend:.0f} {to:.0f} {bend:.0f} {to:.0f} {end:.0f}"
    return f'<path d="{path}" stroke="{colour}" stroke-width="1.6" fill="none"/>'


def _numbers(places: dict[str, Box], steps: Sequence[tuple[str, str]], colour: str, side: float) -> Iterator[str]:
    for number, (here, there) in enumerate(steps, 1):
        _, _, x, y = _ends(places[here], places[there], side)
        yield f'<circle cx="{x:.0f}" cy="{y:.0f}" r="8" fill="{colour}"/>'
        yield f'<text x="{x:.0f}" y="{y + 4:.0f}" text-anchor="middle" font-size="10.5" fill="#ffffff">{number}</text>'
