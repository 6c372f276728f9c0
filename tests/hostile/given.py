"""Attacks by files that a command names: images, judgments and runs, edges and ontologies."""

from __future__ import annotations

import gzip
import io
import json
import struct
import tempfile
import zipfile
import zlib
from functools import cache
from pathlib import Path
from random import Random

from hostile import odd, prepared
from hostile.texts import FORMATS, argument
from hostile.tries import Content, Try

SPECIAL: tuple[Content, ...] = (("fifo",), ("link", "/dev/zero"), ("link", "/dev/tty"), ("folder",), ("sparse", 3 << 30), ("link", "gone"),
                                ("link", "/proc/self/mem"), ("link", "/dev/stdin"), b"")  # fmt: skip
"""What may stand where a file is expected."""


# -------------------------------------------------------------------------------------------------------- images


@cache
def _images() -> dict[str, bytes]:
    """Return a sound file of every kind."""
    from queries import images

    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        images.write_dicom(place / "a.dcm")
        images.write_dicom(place / "b.dcm", syntax=images.DeflatedExplicitVRLittleEndian)
        images.write_dicom(place / "c.dcm", syntax=images.ExplicitVRBigEndian, frames=2)
        images.write_nifti(place / "a.nii", 4, 4, 4)
        images.write_nifti(place / "a.nii.gz", 4, 4, 4, 2)
        images.write_tiff(place / "a.tif", 8, 8)
        images.write_tiff(place / "b.ome.tif", 3, 8, 8, metadata={"axes": "ZYX"}, ome=True)
        images.write_tiff(place / "c.tif", 3, 8, 8, imagej=True, photometric=None)
        found = {path.name: path.read_bytes() for path in sorted(place.iterdir())}
    found["a.png"] = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in ((b"IHDR", struct.pack(">IIBBBBB", 4, 4, 8, 0, 0, 0, 0)), (b"IDAT", zlib.compress(bytes(20))), (b"IEND", b""))
    )
    found["a.nrrd"] = b"NRRD0004\ntype: uchar\ndimension: 3\nsizes: 2 2 2\nencoding: raw\nspace: left-posterior-superior\n\n" + bytes(8)
    found["a.mha"] = b"ObjectType = Image\nNDims = 3\nDimSize = 2 2 2\nElementType = MET_UCHAR\nElementDataFile = LOCAL\n" + bytes(8)
    found["a.mgh"] = struct.pack(">7i", 1, 2, 2, 2, 1, 0, 0) + bytes(300)
    found["a.jpg"] = b"\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0\xff\xc0\0\x0b\x08\0\4\0\4\1\1\x11\0\xff\xd9"
    found["a.gif"] = b"GIF89a\4\0\4\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\4\0\4\0\0\2\2\4\1\0;"
    return found


_TOKENS = (b"SizeZ=\"9\"", b"<Pixels SizeZ='", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0", b"\x80\0\0\0", b"<a:Pixels" * 3000, b"slices=9999999999999999999")


def images(dice: Random) -> Try:
    """Return a file to ask about whose header is damaged, or that only seems to be an image."""
    name, content = dice.choice(sorted(_images().items()))
    roll = dice.random()
    files: dict[str, Content] = {}
    path = name
    if roll < 0.5:
        files[path] = _damaged(dice, content)
    elif roll < 0.6:
        path = dice.choice(("x.nii.gz", "x.tif.gz", "x.gz", "x.nrrd.gz"))
        files[path] = gzip.compress(dice.choice((bytes(30_000_000), _damaged(dice, content), gzip.compress(content))), 1)
    elif roll < 0.72:
        path, files = _zarr(dice)
    elif roll < 0.82:
        path = dice.choice(("x.zip", "x.zarr.zip", "x.ome.zarr.zip"))
        files[path] = _zip(dice)
    elif roll < 0.9:
        path = dice.choice(("\x1b[31mx.dcm", "x\u202e.png", "a\nb.tif", "-x.nii", "x" * 200 + ".dcm"))
        files[path] = content
    else:
        files[path] = dice.choice(SPECIAL)
    words = ("query", "segment this", f"--file={path}", "--format", dice.choice(FORMATS), *dice.choice(((), ("-v",), ("--explain",), ("--log-json",))))
    return Try("images", (words,), files, index="tools")


def _damaged(dice: Random, content: bytes) -> bytes:
    for _ in range(dice.choice((1, 1, 3, 10))):
        place = dice.randrange(min(len(content), 600) or 1)
        piece = dice.choice((dice.randbytes(dice.choice((1, 2, 4, 8))), dice.choice(_TOKENS), odd.piece(dice)))
        content = content[:place] + piece + content[place + (len(piece) if dice.random() < 0.7 else 0) :]
    return content[: dice.randint(0, len(content))] if dice.random() < 0.2 else content


def _zarr(dice: Random) -> tuple[str, dict[str, Content]]:
    attributes = {"multiscales": [{"axes": [{"name": "z", "type": "space"}, {"name": "c"}], "datasets": [{"path": "0"}]}], "omero": {"channels": []}}
    group = json.dumps(_with_odd(dice, attributes)).encode("utf-8", "replace")
    array = json.dumps(_with_odd(dice, {"shape": [2, 2, 2], "chunks": [2, 2, 2], "dtype": "<u1", "zarr_format": 2, "order": "C"})).encode("utf-8", "replace")
    v3 = json.dumps(_with_odd(dice, {"zarr_format": 3, "node_type": "group", "attributes": {"ome": attributes}})).encode("utf-8", "replace")
    files: dict[str, Content] = {"x.zarr/.zattrs": group, "x.zarr/.zgroup": b'{"zarr_format": 2}', "x.zarr/0/.zarray": array}
    if dice.random() < 0.4:
        files = {"x.zarr/zarr.json": v3}
    name = dice.choice(sorted(files))
    roll = dice.random()
    if roll < 0.3:
        files[name] = odd.mutated(dice, group)
    elif roll < 0.45:
        files[name] = dice.choice(SPECIAL)
    elif roll < 0.55:
        files[name] = odd.nested(dice).encode()
    return "x.zarr", files


def _with_odd(dice: Random, item: object) -> object:
    """Return the value with an odd one somewhere in it."""
    if dice.random() < 0.25 or not isinstance(item, (dict, list)) or not item:
        return odd.value(dice)
    if isinstance(item, list):
        place = dice.randrange(len(item))
        return [_with_odd(dice, part) if number == place else part for number, part in enumerate(item)]
    chosen = dice.choice(sorted(item))
    return {key: _with_odd(dice, part) if key == chosen else part for key, part in item.items()}


def _zip(dice: Random) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for _ in range(dice.choice((0, 1, 5, 2000))):
            archive.writestr(dice.choice((".zattrs", "../x", "a/" * 50 + "b", odd.short(dice).replace("\0", "") or "x", "zarr.json")).encode("utf-8", "replace").decode(),
                             dice.choice((b"{}", bytes(1000), b"x")))  # fmt: skip
    content = stream.getvalue()
    return odd.mutated(dice, content) if dice.random() < 0.5 else content


# ----------------------------------------------------------------------------------------------------- judgments

GOLD = b'{"query": "segment lungs", "relevant": ["tool0", "tool6"], "id": "a"}\n{"query": "count cells", "relevant": {"tool1": 2}}\n'
QUERIES = b"a\tsegment lungs\nb\tcount cells\n"
QRELS = b"a 0 tool0 1\nb 0 tool1 2\n"
RUN = b"a Q0 tool0 1 2.5 x\na Q0 tool1 2 1.5 x\nb Q0 tool1 1 3 x\n"
BASELINE = b'{"schema_version": 1, "queries": 2, "metrics": {"nDCG@10": 0.1}, "latency_ms": {"p50": 1}}\n'


def judgments(dice: Random) -> Try:
    """Return judgments, runs, baselines, gates or measures that are odd."""
    files: dict[str, Content] = {"gold.jsonl": GOLD, "queries.tsv": QUERIES, "qrels.trec": QRELS, "run.trec": RUN, "baseline.json": BASELINE}
    name = dice.choice(sorted(files))
    files[name] = _odd_lines(dice, files[name]) if dice.random() < 0.85 else dice.choice(SPECIAL)
    given = {
        "gold.jsonl": (("eval", "--gold", "gold.jsonl"), ("inspect", "diff", "--gold", "gold.jsonl"), ("eval", "--gold", "gold.jsonl", "--with", "fusion.method=rrf")),
        "queries.tsv": (("eval", "--queries", "queries.tsv", "--qrels", "qrels.trec"),),
        "qrels.trec": (("eval", "--queries", "queries.tsv", "--qrels", "qrels.trec"), ("eval", "--queries", "queries.tsv", "--qrels", "qrels.trec", "--run", "run.trec")),
        "run.trec": (("eval", "--queries", "queries.tsv", "--qrels", "qrels.trec", "--run", "run.trec"), ("eval", "--gold", "gold.jsonl", "--run", "run.trec", "--run", "run.trec")),
        "baseline.json": (("eval", "--gold", "gold.jsonl", "--baseline", "baseline.json"),),
    }[name]
    command = dice.choice(given)
    if dice.random() < 0.3 and command[0] == "eval":
        command += dice.choice((("--gate", argument(dice)), ("--metrics", argument(dice)), ("--with", argument(dice)), ("--tolerance", argument(dice)[:20]),
                                ("--run-out", "out.trec"), ("--calibrate",), ("--report", "page")))  # fmt: skip
    return Try("judgments", ((*command, *dice.choice(((), ("--json",)))),), files, index="tools")


def _odd_lines(dice: Random, content: Content) -> bytes:
    assert isinstance(content, bytes)
    lines = content.splitlines()
    for _ in range(dice.choice((1, 1, 2))):
        place = dice.randrange(len(lines))
        if lines[place].startswith(b"{") and dice.random() < 0.7:
            value = _with_odd(dice, json.loads(lines[place])) if dice.random() < 0.8 else odd.value(dice)
            lines[place] = odd.json_text(dice, value).replace(b"\n", b" ")
        elif dice.random() < 0.6:
            words = lines[place].replace(b"\t", b" ").split(b" ")
            words[dice.randrange(len(words))] = odd.utf8(dice).encode().replace(b"\n", b" ")[:100_000]
            lines[place] = dice.choice((b" ", b"\t")).join(words)
        else:
            lines[place] = odd.mutated(dice, lines[place])
        lines = lines or [b""]
    return b"\n".join(lines) + b"\n"


# --------------------------------------------------------------------------------------------------------- edges

TABLE = b"source,target,kind,weight\ntool1,tool2,follows,0.5\ntool3,tool4,about,1\n"
OBO = b"format-version: 1.2\nontology: x\n\n[Term]\nid: X:1\nname: lung\n\n[Term]\nid: X:2\nname: lobe\nis_a: X:1 ! lung\nsynonym: \"part\" EXACT []\n"
OWL = b"""<?xml version="1.0"?>
<!DOCTYPE rdf:RDF [ <!ENTITY a "lung"> ]>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:owl="http://www.w3.org/2002/07/owl#" xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#">
<owl:Class rdf:about="http://x.org/X_1"><rdfs:label>lung</rdfs:label></owl:Class>
<owl:Class rdf:about="http://x.org/X_2"><rdfs:label>lobe</rdfs:label><rdfs:subClassOf rdf:resource="http://x.org/X_1"/></owl:Class>
</rdf:RDF>
"""
TTL = b"""@prefix owl: <http://www.w3.org/2002/07/owl#> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . @prefix x: <http://x.org/> .
x:X_1 a owl:Class ; rdfs:label "lung" . x:X_2 a owl:Class ; rdfs:subClassOf x:X_1 .
"""
_EDGES = {"e.jsonl": prepared.EDGES, "e.csv": TABLE, "e.tsv": TABLE.replace(b",", b"\t"), "e.obo": OBO, "e.owl": OWL, "e.ttl": TTL}


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
        content = dice.choice(SPECIAL)
    elif roll < 0.9:
        content = _bomb(dice, name)
    else:
        name, content = name + ".gz", gzip.compress(dice.choice((sound, sound * 20_000, bytes(50_000_000))), 1)[: dice.choice((None, None, 50))]
    settings = f"sources: [{{kind: catalog, path: tools.jsonl}}, {{kind: docs, path: docs}}]\ngraph: {{files: [{name}], entities: [keywords]}}\n"
    looks = (("inspect", "graph"), ("inspect", "graph", "--json"), ("inspect", "graph", "tool1", "--dot"), ("inspect", "graph", "lung"), ("query", "lungs", "--expand", "--explain"),
             ("inspect", "graph", "tool1", "--picture", "around.svg"), ("inspect", "graph", "tool3", "--radius", "3", "--dot"), ("query", "lungs", "--bundle", "--json"))  # fmt: skip
    files = {name: content, "config.yaml": settings.encode()}
    return Try("edges", (("sync", *dice.choice(((), ("--json",)))), dice.choice(looks)), files, index="tools", control=True)


def _bomb(dice: Random, name: str) -> bytes:
    if name.endswith(".owl"):
        levels = dice.choice((3, 9))
        entities = "".join(f'<!ENTITY e{n} "{"&e" + str(n - 1) + ";" if n else "lol"}">'.replace("&e", "&e", 1) for n in range(1))
        entities += "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, levels + 1))
        return OWL.replace(b'<!ENTITY a "lung">', entities.encode()).replace(b">lung<", f">&e{levels};<".encode())
    if name.endswith(".jsonl"):
        return odd.nested(dice).encode() + b"\n"
    if name.endswith(".obo"):
        return OBO + b"".join(b"\n[Term]\nid: X:%d\nname: n\nis_a: X:%d\n" % (n, n + 1) for n in range(3, 3000))
    return TABLE + b'"' + b"a" * dice.choice((10_000, 3_000_000)) + b"\n"
