"""Attacks by files beside an index: judgments and runs, edges and ontologies."""

from __future__ import annotations

import gzip
import json
from random import Random

from hostile import odd, prepared
from hostile.asking import argument
from hostile.tries import Content, Try

# ----------------------------------------------------------------------------------------------------- judgments

GOLD = b"""\
{"query": "segment lungs", "relevant": ["tool0", "tool6"], "id": "a"}
{"query": "count cells", "relevant": {"tool1": 2}}
"""
QUERIES = b"a\tsegment lungs\nb\tcount cells\n"
QRELS = b"a 0 tool0 1\nb 0 tool1 2\n"
RUN = b"a Q0 tool0 1 2.5 x\na Q0 tool1 2 1.5 x\nb Q0 tool1 1 3 x\n"
BASELINE = b'{"schema_version": 1, "queries": 2, "metrics": {"nDCG@10": 0.1}, "latency_ms": {"p50": 1}}\n'


_FILES = {"gold.jsonl": GOLD, "queries.tsv": QUERIES, "qrels.trec": QRELS, "run.trec": RUN, "baseline.json": BASELINE}
_BY_GOLD = ("eval", "--gold", "gold.jsonl")
_BY_QRELS = ("eval", "--queries", "queries.tsv", "--qrels", "qrels.trec")
_READING = {
    "gold.jsonl": (_BY_GOLD, ("inspect", "diff", "--gold", "gold.jsonl"), (*_BY_GOLD, "--with", "fusion.method=rrf")),
    "queries.tsv": (_BY_QRELS,),
    "qrels.trec": (_BY_QRELS, (*_BY_QRELS, "--run", "run.trec")),
    "run.trec": ((*_BY_QRELS, "--run", "run.trec"), (*_BY_GOLD, "--run", "run.trec", "--run", "run.trec")),
    "baseline.json": ((*_BY_GOLD, "--baseline", "baseline.json"),),
}
"""Commands that read each of these files."""


def judgments(dice: Random) -> Try:
    """Return judgments, runs, baselines, gates or measures that are odd."""
    files: dict[str, Content] = dict(_FILES)
    name = dice.choice(sorted(files))
    files[name] = _odd_lines(dice, files[name]) if dice.random() < 0.85 else dice.choice(odd.SPECIAL)
    command = dice.choice(_READING[name])
    if dice.random() < 0.3 and command[0] == "eval":
        command += dice.choice((("--gate", argument(dice)), ("--metrics", argument(dice)), ("--with", argument(dice)),
            ("--tolerance", argument(dice)[:20]),
                                ("--run-out", "out.trec"), ("--calibrate",), ("--report", "page")))  # fmt: skip
    return Try("judgments", ((*command, *dice.choice(((), ("--json",)))),), files, index="tools")


def _odd_lines(dice: Random, content: Content) -> bytes:
    assert isinstance(content, bytes)
    lines = content.splitlines()
    for _ in range(dice.choice((1, 1, 2))):
        place = dice.randrange(len(lines))
        if lines[place].startswith(b"{") and dice.random() < 0.7:
            value = odd.with_odd(dice, _loaded(lines[place])) if dice.random() < 0.8 else odd.value(dice)
            lines[place] = odd.json_text(dice, value).replace(b"\n", b" ")
        elif dice.random() < 0.6:
            words = lines[place].replace(b"\t", b" ").split(b" ")
            words[dice.randrange(len(words))] = odd.utf8(dice).encode().replace(b"\n", b" ")[:100_000]
            lines[place] = dice.choice((b" ", b"\t")).join(words)
        else:
            lines[place] = odd.mutated(dice, lines[place])
        lines = lines or [b""]
    return b"\n".join(lines) + b"\n"


def _loaded(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return {}


# --------------------------------------------------------------------------------------------------------- edges

TABLE = b"source,target,kind,weight\ntool1,tool2,follows,0.5\ntool3,tool4,about,1\n"
OBO = b"""\
format-version: 1.2
ontology: x

[Term]
id: X:1
name: lung

[Term]
id: X:2
name: lobe
is_a: X:1 ! lung
synonym: "part" EXACT []
"""
OWL = b"""<?xml version="1.0"?>
<!DOCTYPE rdf:RDF [ <!ENTITY a "lung"> ]>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:owl="http://www.w3.org/2002/07/owl#"
 xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#">
<owl:Class rdf:about="http://x.org/X_1"><rdfs:label>lung</rdfs:label></owl:Class>
<owl:Class rdf:about="http://x.org/X_2"><rdfs:label>lobe</rdfs:label>
<rdfs:subClassOf rdf:resource="http://x.org/X_1"/></owl:Class>
</rdf:RDF>
"""
TTL = b"""\
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix x: <http://x.org/> .
x:X_1 a owl:Class ; rdfs:label "lung" . x:X_2 a owl:Class ; rdfs:subClassOf x:X_1 .
"""
_EDGES = {"e.jsonl": prepared.EDGES, "e.csv": TABLE, "e.tsv": TABLE.replace(b",", b"\t"), "e.obo": OBO, "e.owl": OWL,
          "e.ttl": TTL}  # fmt: skip


def edges(dice: Random) -> Try:
    """Return a file of edges, or an ontology, that is odd."""
    name, sound = dice.choice(sorted(_EDGES.items()))
    roll = dice.random()
    content: Content = sound
    if roll < 0.35:
        content = odd.mutated(dice, sound)
    elif roll < 0.7:
        content = _odd_lines(dice, sound)
    elif roll < 0.8:
        content = dice.choice(odd.SPECIAL)
    else:
        packed = gzip.compress(dice.choice((sound, sound * 20_000, bytes(50_000_000))), 1)
        name, content = name + ".gz", packed[: dice.choice((None, None, 50))]
    settings = prepared.CONFIG.replace("edges.jsonl", name)
    looks = (
        ("inspect", "graph"),
        ("inspect", "graph", "--json"),
        ("inspect", "graph", "tool1", "--picture"),
        ("inspect", "graph", "lung"),
        ("query", "lungs", "--expand", "--explain"),
        ("inspect", "graph", "tool3", "--radius", "3", "--picture"),
        ("query", "lungs", "--with-dependencies", "--json"),
    )
    files = {name: content, "config.yaml": settings.encode()}
    commands = (("sync", *dice.choice(((), ("--json",)))), dice.choice(looks))
    return Try("edges", commands, files, index="tools", control=True)
