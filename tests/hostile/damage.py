"""Attacks on the index itself: altered pickles, forged manifests, flipped bits, other things in place of files."""

from __future__ import annotations

import pickle
import struct
from random import Random
from typing import Any

from hostile import odd, prepared
from hostile.texts import looks
from hostile.tries import CURRENT, Content, Try

TABLES = ("records.jsonl", "chunks.jsonl")
PICKLES = ("offsets.pkl", "bm25.pkl", "columns.pkl", "graph.pkl")
FILES = (*TABLES, *PICKLES, "dense.faiss")
FORGE: Content = ("forge", ())


class _Runs:
    """Runs a command in whoever unpickles it."""

    def __init__(self, protocol: int) -> None:
        self.protocol = protocol

    def __reduce__(self) -> tuple[Any, ...]:
        import os

        return os.system, ("touch canary",)


def pickles(dice: Random) -> Try:
    """Return an index one pickle of which is another one; half the time its manifest agrees with it."""
    name = f"{CURRENT}/{dice.choice(PICKLES)}"
    roll = dice.random()
    content: Content
    if roll < 0.3:
        content = dice.choice((("flip", dice.random(), 1 << dice.randrange(8)), ("splice", dice.random(),
            odd.piece(dice)), ("cut", dice.random()),
                               ("insert", dice.random(), odd.piece(dice)), ("splice", dice.random() * 0.05,
                               dice.choice(_OPCODES))))  # fmt: skip
    elif roll < 0.5:
        stream = pickle.dumps([_Runs(0), {"starts": _Runs(0)}], protocol=dice.choice((0, 2, 4, 5)))
        content = dice.choice((stream, framed(stream)))
    elif roll < 0.8:
        content = framed(pickle.dumps(_plain(dice), protocol=5))
    else:
        content = framed(dice.choice(_STREAMS), dice.choice((0, 5, 2**63)))
    forge = {"artifacts": FORGE} if dice.random() < 0.7 else {}
    return Try(
        "pickles",
        (*looks(dice), dice.choice((("query", "lungs"), ("inspect", "verify"), ("sync", "--json")))),
        {name: content, **forge},
        index="tools",
    )


_OPCODES = (b"\x94", b"c__builtin__\neval\n", b"\x8c\x04eval", b"R", b"\x81", b"\x92", b"\x88", b"i", b"o", b"b",
    b"\x8e" + b"\xff" * 8, b"\x8d" + b"\xff" * 7 + b"\x0f",
            b"P0\n", b"Q", b"Bffff", b"X\xff\xff\xff\x7f", b"r\xff\xff\xff\x7f", b"\x97", b"\x98", b"2" * 50, b"0",
            b".", b"L" + b"9" * 5000 + b"L\n", b"\x8b\xff\xff\xff\x7f")  # fmt: skip
_STREAMS = (b"", b".", b"\x80\x05.", b"\x80\xff.", b"]" * 100_000 + b".", b"(" * 200_000 + b".",
    b"\x80\x05" + b"]" * 9000 + b"a" * 8999 + b".", b"\x80\x05\x8c\x200 <f8 9223372036854775807 9 9 9 9Q.",
            b"\x80\x05\x8c\x0a0 <i8 -5 -1Q.", b"\x80\x05\x8c\x030 xQ.", b"\x80\x05\x8a\xff" + b"\xff" * 255 + b".",
            b"\x80\x05\x8e" + b"\xff" * 7 + b"\x7f.")  # fmt: skip


def framed(stream: bytes, start: int = 0) -> bytes:
    """Return a pickle with the footer of an artifact."""
    return stream + struct.pack("<Q8s", start, b"RTRVPKL2")


def _plain(dice: Random) -> object:
    keys = "backend unit starts records chunks id_ends terms fields nodes edges kinds version".split()
    value = odd.value(dice)
    some = {dice.choice(keys): odd.value(dice) for _ in range(4)}
    return dice.choice((value, some, [value] * 5, {"backend": "impacts", "unit": value}, None, 2**70))


def flips(dice: Random) -> Try:
    """Return an index with one bit flipped: it answers, or ends with 5."""
    name = dice.choice((*FILES, "manifest.json"))
    flip = ("flip", dice.random() if dice.random() < 0.8 else dice.random() * 0.02, 1 << dice.randrange(8))
    return Try("flips", (prepared.CONTROL,), {f"{CURRENT}/{name}": flip}, index="tools")


_OTHERS = ("current", "lock", "quarantine.jsonl", "calibration.json", "runs/queries.jsonl",
    "runs/x/run.json", "sources/x", "cache/x", "generations/x/manifest.json",
           "generations/0123456789ab/manifest.json", "generations/.scratch-x/y", ".current.new")  # fmt: skip


_PUT = ("splice", "insert")


def artifacts(dice: Random) -> Try:
    """Return an index with something else in place of one of its files, or beside them."""
    if dice.random() < 0.6:
        name = f"{CURRENT}/{dice.choice((*FILES, 'manifest.json'))}"
    else:
        name = f"artifacts/{dice.choice(_OTHERS)}"
    moved: list[Content] = [("cut", dice.random()), *((how, dice.random(), odd.piece(dice)) for how in _PUT)]
    text, deep = odd.mutated(dice, b'{"a": 1}\n'), odd.nested(dice).encode()[:1000]
    content = dice.choice((*odd.SPECIAL, *moved, ("mode", 0o000), text, b"", deep, dice.randbytes(100)))
    files: dict[str, Content] = {name: content}
    altered = isinstance(content, tuple) and content[0] in ("cut", *_PUT)
    if name.startswith(CURRENT) and altered and dice.random() < 0.5:
        files["artifacts"] = FORGE
    commands = (dice.choice((*looks(dice), ("inspect", "run", "x"), ("inspect", "history"), ("query", "lungs",
        "--min-confidence", "0.5"))),
                dice.choice((("inspect", "verify"), ("sync", "--json"), ("build",), ("doctor",), ("inspect", "history",
                "--json"), ("sync",))))  # fmt: skip
    return Try("artifacts", commands, files, index="tools")


def inbox(dice: Random) -> Try:
    """Return damage to the inbox, the only copy of its documents, and commands that read it."""
    return _beside(dice, "inbox", "artifacts/inbox.db", (("sync", "--json"), ("inspect", "verify")))


def keys(dice: Random) -> Try:
    """Return damage to the keys of a server's callers, and commands that read them."""
    return _beside(dice, "keys", "artifacts/keys.json", (("keys", "list", "--json"), ("inspect", "verify")))


def _beside(dice: Random, category: str, path: str, commands: tuple[tuple[str, ...], ...]) -> Try:
    roll, where = dice.random(), dice.random()
    change: tuple[object, ...] = ("flip", where, 1 << dice.randrange(8))
    if roll < 0.2:
        change = ("splice", where, dice.randbytes(dice.choice((1, 2, 20))))
    elif roll < 0.3:
        change = ("insert", where, dice.choice((b"\n", b"\0", b"{}\n", dice.randbytes(5))))
    return Try(category, commands, {path: change}, index=prepared.OWN, control=True)
