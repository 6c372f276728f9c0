"""Records of a tenant and of others, in a catalog where every field of others could leak: for rules of access."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

Row = dict[str, Any]
Spelling = Callable[[Row], Row]
FOREIGN = "zq"
"""In every id, name of a field, group and word of others that the tenant has no part in."""
CONFIG = {
    "encoder": {"kind": "hashed"},
    "graph": {"entities": ["topics", "keyword", "domain"], "files": ["edges.jsonl"]},
    "broadening": {"max_retries": 0},
}
TEXT = "open single cell matrices"


def write_sources(
    folder: Path, rows: Sequence[Row], edges: Sequence[Row], *, foreign: bool, spell: Spelling = dict, **keys: Any
) -> None:
    """Write catalog, edges and configuration of all records, or of the tenant's own alone: each on the same line.

    What a file says of the records of others, or of values that only they have, goes with them.
    """
    folder.mkdir(parents=True)
    kept = [spell(row) if foreign or owns(row) else None for row in rows]
    others = meant_by(row for row in rows if not owns(row)) - meant_by(filter(owns, rows))
    edges = [edge for edge in edges if foreign or not ends_of(edge) & others]
    (folder / "tools.jsonl").write_text("".join((json.dumps(row) if row else "") + "\n" for row in kept))
    (folder / "edges.jsonl").write_text("".join(json.dumps(edge) + "\n" for edge in edges))
    (folder / "config.yaml").write_text(json.dumps({**CONFIG, **keys}))  # JSON is YAML


def meant_by(rows: Iterable[Row]) -> set[str]:
    """All that the end of an edge can mean: ids and names of records, and values that they share."""
    several = ("topics", "keywords")
    kept = [[row["id"], row["name"], row.get("domain") or "", *(row.get(key, ()) for key in several)] for row in rows]
    return {name.casefold() for names in kept for part in names for name in ([part] if isinstance(part, str) else part)}


def ends_of(edge: Row) -> set[str]:
    return {edge["source"].casefold(), edge["target"].casefold()}


def owns(row: Row) -> bool:
    tenants = row.get("tenant")
    return "acme" in (tenants if isinstance(tenants, list) else [tenants])


def own(at: int, text: str, **more: Any) -> Row:
    return {"id": f"a{at}", "name": f"Tool {at}", "description": text, "tenant": "acme", **more}


def other(at: int, text: str, **more: Any) -> Row:
    name, description = f"{FOREIGN}Tool {at}", f"{text} {FOREIGN}word{at}"
    return {"id": f"{FOREIGN}{at}", "name": name, "description": description, "tenant": "beta", **more}


ROWS: list[Row] = [
    other(
        0,
        "Opens single cell matrices.",
        requires_tool=["a0", "zq1"],
        topics=["IMAGING"],
        group="zqgroup",
        domain="doors",
    ),
    own(0, "Opens single cell matrices.", requires_tool=["zq1", "a1", "Reader"], topics=["Imaging", "io"], group="one"),
    other(1, "Stores tables.", requires_tool=["a2", "a0"], topics=["zqsecret", "IO"], keywords=["Cells"], group="one"),
    own(1, "Stores tables.", license="MIT", requires_tool=["zq2"], topics=["io"], shade="dark", group="two"),
    other(2, "Opens single cell matrices.", name="Reader", requires_tool=["a3"], shade=3, zqfield=1, zqs={"dose": 9}),
    own(2, "Counts cells.", license="GPL-3.0", requires_tool=["a4", "zqTool 0"], specs={"dose": 4}, keywords=["cells"]),
    own(3, "Paints walls green.", name="Reader", requires_tool=["a2"], topics=["imaging"], license="GPL-3.0"),
    other(3, "Paints walls green.", tenant=None, topics=["Imaging"], compatible_with=["a3", "a4"], group="two"),
    own(
        4,
        "Opens doors.",
        domain="Doors",
        license="MIT",
        compatible_with=["zq3"],
        tenant=["beta", "acme"],
        requires_tool=["a2"],
    ),
    own(5, "Closes windows.", domain="doors", topics=["Imaging"], group="two"),
    other(4, "Knits socks.", domain="zqsocks", requires_tool=["a5"]),
    own(6, "Sings songs.", requires_tool=["a5"]),
]
EDGES: list[Row] = [
    {"source": "a1", "target": "zq3", "kind": "seen_with"},
    {"source": "zq3", "target": "a5", "kind": "seen_with"},
    {"source": "a1", "target": "zqsecret", "kind": "uses"},
    {"source": "zqsecret", "target": "a4", "kind": "uses"},
    {"source": "io", "target": "imaging", "kind": "is_a", "weight": 0.5},
    {"source": "a5", "target": "glass", "kind": "made_of"},
    {"source": "a6", "target": "glass", "kind": "made_of"},
    {"source": "zq4", "target": "glass", "kind": "made_of"},
    {"source": "zqsecret", "target": "io", "kind": "is_a"},
]


def foreign_words(text: str) -> set[str]:
    return set(re.findall(rf"{FOREIGN}\w*", text.casefold()))


def words_of(text: str) -> list[str]:
    """Return the words of an answer in alphabetical order, without numbers.

    Scores, and so ranks, depend on the document frequencies of the whole index.
    """
    return sorted(re.findall(r"[^\W\d_]+", re.sub(r"\de[+-]?\d+", " ", text)))


WORDS = ["open", "single", "cell", "matrices", "store", "tables", "paint", "walls"]
NAMES = ["a0", "a1", "a2", "a3", "zq0", "zq1", "zq2", "Reader", "Saver", "Tool 1", "zqTool 1"]
sentences = st.lists(st.sampled_from(WORDS), min_size=2, max_size=5).map(" ".join)
references = st.lists(st.sampled_from(NAMES), max_size=3, unique=True)
common = {
    "requires_tool": references,
    "compatible_with": references,
    "license": st.sampled_from(["MIT", "GPL-3.0", None]),
}


@st.composite
def indexes(draw: st.DrawFn) -> tuple[list[Row], list[Row]]:
    """Records of the tenant and of others in any order, and edges that files state between them."""
    topics = [["Imaging", "io", "Cells"], ["IMAGING", "IO", "cells", "zqsecret"]]
    groups = [["one", "two", None], ["one", "two", "zqgroup", None]]
    names = [["Reader", "Saver"], ["Reader", "saver", "a1", "zqTool 1"]]
    rows = []
    for foreign, make, owners in ((0, own, ["acme", ["beta", "acme"]]), (1, other, ["beta", "ACME", None])):
        for at in range(draw(st.integers(1, 4))):
            chosen = {key: draw(values) for key, values in common.items()}
            chosen["topics"] = draw(st.lists(st.sampled_from(topics[foreign]), max_size=2, unique_by=str.casefold))
            chosen["group"] = draw(st.sampled_from(groups[foreign]))
            chosen["domain"] = draw(st.sampled_from(["doors", "Walls", None]))
            chosen["tenant"] = draw(st.sampled_from(owners))
            if draw(st.booleans()):
                chosen["name"] = draw(st.sampled_from(names[foreign]))
            if draw(st.booleans()):
                chosen |= [{"specs": {"dose": 4}}, {"zqs": {"dose": 5}, "zqfield": 1, "shade": 1}][foreign]
            rows.append(make(at, draw(sentences), **chosen))
    # Whether there are edges at all decides which stages there are: each index has one.
    rows.append(own(9, "Opens doors.", requires_tool=["a0"], shade="dark"))
    ends = st.sampled_from(["a0", "a1", "a9", "zq0", "zq1", "zqsecret", "io", "Imaging", "glass", "walls"])
    kinds, weights = st.sampled_from(["seen_with", "is_a", "requires"]), st.sampled_from([0.25, 1.0])
    edge = st.fixed_dictionaries({"source": ends, "target": ends, "kind": kinds, "weight": weights})
    known = meant_by(rows)
    drawn = draw(st.lists(edge, max_size=5))
    edges = [each for each in drawn if all(end in known or FOREIGN not in end for end in ends_of(each))]
    return draw(st.permutations(rows)), edges
