"""Weight of each kind of edge in each direction, damping of a node that many share, and the path to a record.

A step multiplies a score by weight of the edge x weight of its kind x damping of the node that it leaves, and by the
decay if that node is a record: two records are one step apart, regardless of the nodes between them. From a value to
the records that have it the kind counts no second time, nor do kinds that have no name here, on the way between two
records. Weights above 1 are counts: they are divided by the largest of their kind, so that no step raises a score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import log
from typing import Literal

from retrieve_cli.errors import UsageError, printable, quoted
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.retrieval.graph.graph import Node


class Walk(Frozen):
    """Walk along edges of a kind in one direction."""

    weight: float = 1.0
    """From 0, never, to 1."""
    damped: Literal["never", "later", "always"] = "later"
    """Places where a node with many such edges is worth less: nowhere, behind the seeds, or at the seeds too. A
    requirement counts in full however many a tool has; being one of a hundred tools that require something means
    little."""
    most: float = 1.0
    """Share of the records beyond which a value that they have links none of them."""
    once: bool = False
    """True if the edge counts only when the walk leaves a record: not between two other nodes, nor from them to a
    record."""


_PAIRS = {"requires": "required_by", "part_of": "has_part", "is_a": "has_subtype"}
INVERSES: Mapping[str, str] = {**_PAIRS, **{inverse: kind for kind, inverse in _PAIRS.items()}}
"""The names of kinds that are walked from their targets to their sources; others are called the same both ways."""
DOMAIN, SHARES = "same_domain", "shares_entity"
"""The names of what links records by their domain, and of all that has no name here: values, and kinds of files."""
WALKS: Mapping[str, Walk] = {
    "requires": Walk(1.0, damped="never"),
    "required_by": Walk(0.5, damped="always"),
    "part_of": Walk(0.5),
    "has_part": Walk(0.5),
    "compatible_with": Walk(0.5),
    "co_occurs": Walk(0.5),
    "is_a": Walk(0.5),
    "has_subtype": Walk(0.5),
    "links_to": Walk(0.0),  # a link of a note is no requirement: it is followed if a weight is given
    DOMAIN: Walk(0.25, most=0.2),
    SHARES: Walk(0.4, once=True),
}
"""By the name of a direction, how it is walked by default."""
_BOTH_WAYS = frozenset({"part_of", "is_a"})
"""Kinds whose name in `expansion.kinds` means both directions."""


def direction(kind: str, *, forward: bool) -> str:
    """Return the name of a kind in one direction: `requires` backwards is `required_by`."""
    return kind if forward else INVERSES.get(kind, kind)


def group_of(name: str) -> str:
    """Return the name of a direction under which its default and its weight may be given as well."""
    if name in WALKS:
        return name
    return DOMAIN if name == "domain" else SHARES


def walk_of(name: str, walks: Mapping[str, Walk] | None) -> Walk | None:
    """Return the walk of a direction from `walks`, None if they do not have it; the default walk without `walks`."""
    return WALKS[group_of(name)] if walks is None else walks.get(name, walks.get(group_of(name)))


def chosen(
    kinds: Iterable[str], *, only: Sequence[str] = (), weights: Mapping[str, float], domain_share: float
) -> dict[str, Walk]:
    """Return the walks that a configuration chooses for the kinds of a graph, by direction.

    `only` are the kinds or directions that are walked, all if it is empty; `weights` replace the weights of directions;
    `domain_share` is the share of the records up to which a domain links them.

    Raises:
        UsageError: a name is neither known nor a kind of the graph.
    """
    names = dict.fromkeys([*WALKS, *(direction(kind, forward=forward) for kind in kinds for forward in (True, False))])
    known = [*names, *kinds]
    _check(only, known, "expansion.kinds")
    _check(weights, known, "expansion.weights")
    wanted = {*only, *(INVERSES[name] for name in _BOTH_WAYS.intersection(only))}
    walks = {}
    for name in names:
        group = group_of(name)
        if only and not wanted & {name, group}:
            continue
        walk = WALKS[group]
        if name in weights:
            walk = replace(walk, weight=weights[name], once=walk.once and name == group)
        else:
            walk = replace(walk, weight=weights.get(group, walk.weight))
        walks[name] = replace(walk, most=domain_share) if group == DOMAIN else walk
    return walks


def _check(given: Iterable[str], known: Sequence[str], key: str) -> None:
    """Raises: UsageError if a name is not among the known ones."""
    for name in given:
        if name not in known:
            from retrieve_cli.untrusted.nearest import nearest

            near = nearest(name, known)
            hint = f"did you mean `{near}`?" if near else f"known here are {', '.join(dict.fromkeys(known))}"
            raise UsageError(f"{key}: the graph has no kind {quoted(name)}", hint=printable(hint))


def damping(edges: int, records: int) -> float:
    """From 1, where a node has one edge of a kind, to 0, where it has one to every record.

    log(n / edges) / log(n): the share of what there is to know about a record, in bits, that is known once it is known
    to be one of these (Spärck Jones 1972's idf, normalised).
    """
    if edges <= 1:
        return 1.0
    return max(0.0, log(records / edges) / log(records)) if records > 1 else 0.0


class PathStep(Frozen):
    """One edge of a path, in the direction of the walk."""

    node: Node
    """The node that it leads to."""
    kind: str
    weight: float
    """By how much it multiplied the score."""
    forward: bool = True
    """True if it was walked from its source to its target."""


class Path(Frozen):
    """Best path to a node: the node that it starts from, and each step."""

    start: Node
    steps: tuple[PathStep, ...]
    score: float
    """Score of the start times the weights of the steps."""

    @property
    def node(self) -> Node:
        """The node that it leads to."""
        return self.steps[-1].node

    def rendered(self, label: Callable[[Node], str]) -> str:
        """For people: `scanpy_preprocess —requires→ scrublet (0.42)`."""
        text = label(self.start)
        for step in self.steps:
            arrow = f"—{step.kind}→" if step.forward else f"←{step.kind}—"
            text += f" {arrow} {label(step.node)}"
        return f"{text} ({self.score:.2f})"
