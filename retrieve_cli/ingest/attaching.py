"""Attached generations: a folder with the manifest alone, whose files are read from an engine.

What a machine needs to attach a generation travels as blocks beside its files: the manifest without the circumstances
of the build, the sums of blocks, the statistics of scores, and the shares of all engines.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from retrieve_cli.assemble import engines
from retrieve_cli.config.index_settings import LOCAL
from retrieve_cli.contracts.engines import BLOCKS, Part
from retrieve_cli.errors import IndexCorrupt, UsageError, quoted
from retrieve_cli.frozen import replace
from retrieve_cli.storage import durable, engine_record, sums
from retrieve_cli.storage.engine_record import STATISTICS, Entry
from retrieve_cli.storage.manifest import Manifest
from retrieve_cli.storage.mapped import BLOCK
from retrieve_cli.storage.remote_file import ATTACHED
from retrieve_cli.untrusted.files import MANIFEST as LIMIT
from retrieve_cli.version import __version__

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import Json
    from retrieve_cli.contracts.engines import EngineGeneration, Staging
    from retrieve_cli.storage.generation import Generation
    from retrieve_cli.storage.store import Store

_ACCOUNT = "attach.json"
_COPIED = (sums.FILE, STATISTICS)
"""Files that every reader needs whole."""
_HINT = "send the index again with engines.store: engine: retrieve engines push"

Shares = Mapping[str, tuple[Sequence[Part], Sequence[str]]]
"""By engine the parts and the files that it gets."""


def send(staging: Staging, generation: Generation, shares: Shares) -> None:
    """Store what a machine needs to attach a generation."""
    copied = {name: (generation.folder / name).read_bytes() for name in _COPIED}
    account = {
        "manifest": json.dumps(replace(generation.manifest, built={}).to_json()),
        "sizes": {name: len(data) for name, data in copied.items()},
        "engines": {
            name: {"parts": [part._asdict() for part in parts], "files": list(files)}
            for name, (parts, files) in shares.items()
        },
    }
    for name, data in {**copied, _ACCOUNT: json.dumps(account).encode()}.items():
        put(staging, name, data, ended=True)


def put(staging: Staging, file: str, data: bytes, *, first: int = 0, ended: bool = False) -> None:
    """Store bytes of a file as blocks from number `first` on; if they are `ended`, the last block is not full."""
    count = len(data) // BLOCK + 1 if ended else -(-len(data) // BLOCK)
    blocks = {number: data[number * BLOCK : (number + 1) * BLOCK] for number in range(count)}
    for start in range(0, count, BLOCKS):
        some = range(start, min(start + BLOCKS, count))
        staging.put_blocks(file, {first + number: blocks[number] for number in some})


def attach(store: Store, settings: Settings, *, generation: str | None = None) -> str:
    """Make the generation that an engine's alias names, or the one given, current in this folder; return its id. The
    lock must be held.

    Raises:
        UsageError: no engine keeps files, its alias names nothing, or queries under these settings would read what
            was not sent.
        IndexCorrupt: an engine does not have the generation, or its blocks are not those that were sent.
        Unavailable: an engine cannot be reached.
    """
    if (keeper := engines.keeper(settings)) is None or settings.engines.store == LOCAL:
        hint = "set engines.store: engine, here and where the index is built"
        raise UsageError("no engine keeps texts and columns", hint=hint)
    chosen = engines.engine(keeper, settings)
    if (name := generation or chosen.live()) is None:
        hint = "where the index is built: retrieve engines push"
        raise UsageError(f"{keeper} holds no published generation", hint=hint)
    with closing(chosen.open(name)) as opened, store.scratch() as scratch:
        account = _account(opened, name, keeper)
        manifest = Manifest.of_text(account["manifest"], f"{_ACCOUNT} of {keeper}")
        if manifest.id != name:
            raise IndexCorrupt(f"{keeper} has the files of {manifest.id} under {name}", hint=_HINT)
        entries = _entries(account["engines"], name, settings)
        engines.expect_readable(manifest, entries, settings)
        for file in _COPIED:
            (scratch / file).write_bytes(_whole(opened, file, int(account["sizes"][file])))
        for file, entry in manifest.files.items():
            with (scratch / file).open("wb") as hole:
                hole.truncate(entry.bytes)
        engine_record.write(scratch, entries)
        durable.replace(scratch / ATTACHED, json.dumps({"engine": keeper}) + "\n")
        return store.publish(scratch, manifest, {"version": __version__, "sources": []})


def _account(opened: EngineGeneration, name: str, keeper: str) -> Mapping[str, Json]:
    """Return the account of a generation. Raises: UsageError: it is elsewhere; IndexCorrupt: it is damaged."""
    try:
        opened.blocks(_ACCOUNT, [0])
    except IndexCorrupt as error:
        hint = f"set engines.dense, engines.lexical and engines.sparse as there; or {_HINT}"
        message = f"{keeper} does not keep the files of {name}: the first engine where the index is built does"
        raise UsageError(message, hint=hint) from error
    try:
        parts = [b""]
        for number in range(LIMIT // BLOCK):
            parts.append(opened.blocks(_ACCOUNT, [number])[0])
            if len(parts[-1]) < BLOCK:  # the last one is not full
                break
        account = json.loads(b"".join(parts))
        if isinstance(account, dict) and {"manifest", "sizes", "engines"} <= account.keys():
            return account
    except ValueError:
        pass
    raise IndexCorrupt(f"the account of {name} in the engine is damaged", hint=_HINT)


def _whole(opened: EngineGeneration, file: str, size: int) -> bytes:
    numbers = range(size // BLOCK + 1)
    parts = [numbers[start : start + BLOCKS] for start in range(0, len(numbers), BLOCKS)]
    data = b"".join(block for part in parts for block in opened.blocks(file, part))
    if len(data) != size:
        raise IndexCorrupt(f"{file} has {len(data)} bytes in the engine; {size} were sent", hint=_HINT)
    return data


def _entries(shares: Mapping[str, Json], name: str, settings: Settings) -> dict[str, Entry]:
    """Return the rows that each engine reports. Raises: IndexCorrupt, Unavailable."""
    found = {}
    for engine, share in shares.items():
        chosen = engines.engine(engine, settings)
        try:
            parts = [Part(**part) for part in share["parts"]]
            files = [str(file) for file in share["files"]]
        except (TypeError, KeyError) as error:
            raise IndexCorrupt(f"the account of {name} is damaged ({quoted(error)})", hint=_HINT) from error
        with closing(chosen.open(name)) as opened:
            found[engine] = Entry(chosen.card, parts, files, opened.census)
    return found
