"""The form of a snapshot: a tar archive in one zstd frame.

    snapshot.json               first: its description, with SHA-1 and size of all members outside of generation/
    generation/manifest.json    second: as beside the files, addresses without possible secrets
    generation/<file>           the files of the generation, whose SHA-1 and size are in the manifest
    inbox/documents.jsonl       the documents that were added one at a time, and
    inbox/files/<sha1>          documents that were sent as files
    calibration.json            if scores were calibrated
    config.yaml                 the configuration file, if there was one

`tar --zstd -xf FILE` unpacks it anywhere. The configuration in it has no possible secrets: keys, users and queries of
addresses.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from retrieve_cli.config.loading import read_yaml
from retrieve_cli.contracts import Json
from retrieve_cli.errors import IndexCorrupt, Unavailable, UsageError, quoted, shortened
from retrieve_cli.frozen import Frozen, asdict
from retrieve_cli.http.addresses import shown
from retrieve_cli.storage.manifest import FileEntry, sha1
from retrieve_cli.untrusted.files import CONFIG, read_text

SUFFIX = ".tar.zst"
NAME = re.compile(r"([0-9a-f]{12})-[0-9a-f]{6}\.tar\.zst")
"""Names that `create` chooses: the generation's id, and a mark of the other members."""
HEADER, FOLDER, LOG = "snapshot.json", "generation/", "inbox/documents.jsonl"
MANIFEST = FOLDER + "manifest.json"
CALIBRATION, CONFIG_FILE = "calibration.json", "config.yaml"
_FORMAT = "retrieve-snapshot"
_VERSION = 1
_MEMBER = re.compile(r"calibration\.json|config\.yaml|inbox/(documents\.jsonl|files/[0-9a-f]{40})")


class BadSnapshot(ValueError):
    """A snapshot that is damaged, cut short, or was not written here."""


class SnapshotHeader(Frozen):
    """Description of a snapshot, its first member."""

    generation: str
    created: str
    """UTC, ISO 8601."""
    version: str
    """Version of the program that wrote it."""
    store: str
    """A digest of the machine and folder that it was created from."""
    records: int
    chunks: int
    index_bytes: int
    """Size of the files of the generation."""
    members: Mapping[str, FileEntry] = {}
    """The members outside of the generation, by name."""

    def to_json(self) -> dict[str, Json]:
        return {"format": _FORMAT, "schema_version": _VERSION, **asdict(self)}

    @classmethod
    def of(cls, text: bytes) -> SnapshotHeader:
        """Return the header from the first member. Raises: BadSnapshot."""
        try:
            value = json.loads(text)
            if (value["format"], value["schema_version"]) != (_FORMAT, _VERSION):
                raise BadSnapshot(f"its format is {quoted(value['format'])} {quoted(value['schema_version'])}")
            texts = [value[key] for key in ("generation", "created", "version", "store")]
            counts = [value[key] for key in ("records", "chunks", "index_bytes")]
            members = {name: FileEntry.of(entry) for name, entry in value["members"].items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise BadSnapshot(f"{HEADER} is damaged ({shortened(str(error))})") from error
        if {*map(type, texts)} != {str} or {*map(type, counts)} != {int}:
            raise BadSnapshot(f"{HEADER} has a value of the wrong type")
        if not all(map(_MEMBER.fullmatch, members)):
            raise BadSnapshot(f"{HEADER} names a member that snapshots do not have")
        named = zip(("generation", "created", "version", "store"), texts, strict=True)
        return cls(**dict(named), records=counts[0], chunks=counts[1], index_bytes=counts[2], members=members)

    def summary(self) -> dict[str, Json]:
        """Return the description for people and programs."""
        named = ("generation", "created", "records", "chunks", "index_bytes")
        small = (CALIBRATION, CONFIG_FILE, LOG)
        return {
            **{name: getattr(self, name) for name in named},
            "members": [name for name in small if name in self.members],
        }


def origin_of(artifacts: Path) -> str:
    """Return a digest of this machine and the folder of an index."""
    return sha1([os.uname().nodename, os.path.realpath(artifacts)])[:12]


def damaged(path: Path, why: str) -> IndexCorrupt:
    """Return the error for a damaged snapshot."""
    hint = "nothing of it was used; create another one: retrieve snapshot create"
    return IndexCorrupt(f"{path} is not a sound snapshot: {why}", hint=hint)


def zstd() -> Any:
    """Return the package zstandard. Raises: Unavailable: it is not installed."""
    try:
        import zstandard
    except ImportError as error:
        raise Unavailable("the package zstandard is not installed", hint="pip install zstandard") from error
    return zstandard


_ADDRESS = re.compile(r"(?<![\w+.-])[\w+.-]{1,20}://[^\s\"'<>]*")
_SECRET = re.compile(r"(?:key|token|secret|passw|credential)", re.IGNORECASE)
_NAMES = ("_env", "_tokens", "tokenizer", "tokens")
"""Ends of keys that look like secrets and are not: names of variables, and tokens of texts."""


def config_text(path: Path) -> bytes:
    """Return the text of a configuration file; without its comments if a secret had to be removed.

    Raises:
        UsageError: it cannot be read.
    """
    import yaml

    try:
        text = read_text(path, limit=CONFIG)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"cannot read the configuration {path}: {reason}", hint="check --config") from error
    value = read_yaml(text, str(path))
    public = without_secrets(value)
    comments = [line.partition("#")[2] for line in text.splitlines()]
    harmless = not any(_SECRET.search(line) or _public(line) != line for line in comments)
    if public == value and harmless:
        return text.encode()
    head = "# As it was when the snapshot was created, without comments and possible secrets.\n"
    return (head + str(yaml.safe_dump(public, allow_unicode=True, sort_keys=False))).encode()


def without_secrets(value: Json, key: str = "") -> Json:
    """Return a value with its addresses redacted for display, and without the values of secret keys."""
    if isinstance(value, Mapping):
        return {name: without_secrets(part, str(name)) for name, part in value.items()}
    if isinstance(value, list):
        return [without_secrets(part, key) for part in value]
    if _SECRET.search(key) and not key.endswith(_NAMES) and isinstance(value, str):
        return "…"
    return _public(value) if isinstance(value, str) else value


def _public(text: str) -> str:
    return _ADDRESS.sub(lambda found: shown(found[0]) if "@" in found[0] or "?" in found[0] else found[0], text)
