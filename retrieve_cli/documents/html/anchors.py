"""Names of headings that a link can lead to."""

from __future__ import annotations

from collections.abc import Sequence, Set as AbstractSet

from retrieve_cli.documents.html.tree import TEXT, Tree, flat

_LONGEST = 200


def own_anchor(tree: Tree, node: int) -> str:
    """Return the id of an element, or the name of an `<a>`; empty if it has none that a link could use."""
    name = tree.value(node, "id") or (tree.value(node, "name") if tree.names[node] == "a" else "")
    usable = 0 < len(name) <= _LONGEST and name.isprintable() and not any(char.isspace() for char in name)
    return name if usable else ""


def permalinks(tree: Tree, heading: int) -> dict[int, str]:
    """Return the links of a heading to itself that are marks, such as `¶`, with their targets.

    A link to a place of the same page is a mark if it has no letters or digits, or if it has the words of its own
    `title` or label beside the words of the heading.
    """
    marks = {}
    for link in tree.inside(heading, frozenset(("a",))):
        target = tree.value(link, "href")
        if not target.startswith("#"):
            continue
        words = flat(tree, link, tree.ends[link])
        labels = (tree.value(link, "title"), tree.value(link, "aria-label"))
        if not any(char.isalnum() for char in words) or words in labels:
            marks[link] = target[1:]
    return marks


def heading_anchor(tree: Tree, heading: int, marks: dict[int, str], *, above: Sequence[str]) -> str:
    """Return the anchor of a heading: its own id, else the one its own link names, else one inside of it, else the
    last one `above` it behind all other text."""
    if own := own_anchor(tree, heading):
        return own
    inner = [
        anchor
        for node in range(heading + 1, tree.ends[heading])
        if tree.names[node] != TEXT and tree.attributes[node] and (anchor := own_anchor(tree, node))
    ]
    near: AbstractSet[str] = {*inner, *above}
    named = next((target for target in marks.values() if target in near), "")
    return named or next(iter(inner), "") or (above[-1] if above else "")
