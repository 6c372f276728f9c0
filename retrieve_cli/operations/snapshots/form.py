"""The form of a snapshot: a tar archive in one zstd frame, its members in a fixed order.

    snapshot.json               its description, and the SHA-256 of the small members
    generation/manifest.json    as beside the files, addresses without possible secrets
    generation/<file>           the files of the generation, in the order of their names
    calibration.json            if scores were calibrated
    configuration.json          every key that decides answers
    config.yaml                 the configuration file, if there was one
    SHA256SUMS                  of all members before it, as `sha256sum -c` reads it

`tar --zstd -xf FILE` unpacks it anywhere. A reader here trusts nothing in it: members are plain files with the names
and lengths of the manifest, in this order, and anything else in the archive is an error.

The configuration that goes into a snapshot, without possible secrets: keys, users and queries of addresses.
"""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from retrieve_cli.config.loading import read_yaml
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json
from retrieve_cli.errors import IndexCorrupt, Unavailable, UsageError, quoted, shortened
from retrieve_cli.frozen import Frozen, asdict, replace
from retrieve_cli.http.addresses import shown
from retrieve_cli.output.run_account import configuration
from retrieve_cli.storage import json_checks
from retrieve_cli.storage.manifest import Manifest
from retrieve_cli.untrusted.files import CONFIG, MANIFEST as LARGE, read_text

SUFFIX = ".tar.zst"
NAME = re.compile(r"([0-9a-f]{12})(?:-[0-9a-f]{6})?\.tar\.zst")
"""Names that `create` chooses: the generation's id, and a mark if another snapshot of it exists."""
HEADER, SUMS, FOLDER = "snapshot.json", "SHA256SUMS", "generation/"
MANIFEST = FOLDER + "manifest.json"
CALIBRATION, CONFIGURATION, CONFIG_FILE = "calibration.json", "configuration.json", "config.yaml"
EXTRAS = {CALIBRATION: LARGE, CONFIGURATION: CONFIG, CONFIG_FILE: CONFIG}
"""Small members beside the generation, in their order, and the most bytes of each."""
BLOCK = tarfile.BLOCKSIZE
WINDOW = 1 << 23
"""The most unpacked bytes that a reader keeps (RFC 8878 asks decoders for 8 MB)."""
_FORMAT = "retrieve-snapshot"
_VERSION = 1
_LONGEST_NAME = 100
_SHA256 = re.compile(r"[0-9a-f]{64}")
_KINDS = {
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.LNKTYPE: "a hard link",
    tarfile.DIRTYPE: "a folder",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a named pipe",
    tarfile.GNUTYPE_SPARSE: "a sparse file",
}


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
    extras: Mapping[str, str] = {}
    """SHA-256 of the small members, by name."""

    def to_json(self) -> dict[str, Json]:
        return {"format": _FORMAT, "schema_version": _VERSION, **asdict(self)}

    @classmethod
    def of(cls, text: bytes) -> SnapshotHeader:
        """Return the header from the first member. Raises: BadSnapshot."""
        try:
            value = json_checks.mapping(json.loads(text), HEADER)
            version = value.get("schema_version")
            if value.get("format") != _FORMAT or version != _VERSION:
                raise BadSnapshot(f"its format is {quoted(value.get('format'))} {quoted(version)}, not {_FORMAT!r} 1")
            header = cls(
                generation=json_checks.text(value["generation"], "generation"),
                created=json_checks.text(value["created"], "created"),
                version=json_checks.text(value["version"], "version"),
                store=json_checks.text(value["store"], "store"),
                records=json_checks.count(value["records"], "records"),
                chunks=json_checks.count(value["chunks"], "chunks"),
                index_bytes=json_checks.count(value["index_bytes"], "index_bytes"),
                extras={name: str(digest) for name, digest in json_checks.mapping(value["extras"], "extras").items()},
            )
        except (ValueError, KeyError, RecursionError) as error:
            raise BadSnapshot(f"{HEADER} is damaged ({shortened(str(error))})") from error
        if not header.extras.keys() <= EXTRAS.keys() or not all(map(_SHA256.fullmatch, header.extras.values())):
            raise BadSnapshot(f"{HEADER} names a member that snapshots do not have")
        return header


def tar_header(name: str, size: int, mtime: int) -> bytes:
    """Return the block before a member.

    Raises:
        ValueError: the name or size does not fit into a block.
    """
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = size, mtime, 0o644
    block = info.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict")
    if len(block) != BLOCK:
        raise ValueError(f"the name {quoted(name)} is longer than {_LONGEST_NAME} bytes")
    return block


def read_tar_header(block: bytes) -> tuple[str, int]:
    """Return the name and the size of a plain file from the block before it, as `tar_header` writes it.

    Raises:
        BadSnapshot: it is anything else.
    """
    try:
        info = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
        same = info.size >= 0 and tar_header(info.name, info.size, int(info.mtime)) == block
    except (tarfile.TarError, ValueError, OverflowError) as error:
        raise BadSnapshot(f"the block before a member is damaged ({shortened(str(error))})") from error
    if not same:
        raise BadSnapshot(f"member {quoted(info.name)} is {_KINDS.get(info.type, 'not as snapshots have members')}")
    return info.name, info.size


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


def summary(header: SnapshotHeader) -> dict[str, Json]:
    """Return the description of a snapshot, for people and programs."""
    return {
        "generation": header.generation,
        "created": header.created,
        "records": header.records,
        "chunks": header.chunks,
        "index_bytes": header.index_bytes,
        "members": [name for name in EXTRAS if name in header.extras],
    }


_ADDRESS = re.compile(r"(?<![\w+.-])[\w+.-]{1,20}://[^\s\"'<>]*")
_SECRET = re.compile(r"(?:key|token|secret|passw|credential)", re.IGNORECASE)
_NAMES = ("_env", "_tokens", "tokenizer", "tokens")
"""Ends of keys that look like secrets and are not: names of variables, and tokens of texts."""
_HIDDEN = "…"


def decisive(settings: Settings) -> bytes:
    """Return every key that decides answers, as JSON."""
    return (json.dumps(configuration(settings), indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


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
        return _HIDDEN
    return _public(value) if isinstance(value, str) else value


def public_manifest(manifest: Manifest) -> Manifest:
    """Return a manifest whose origins have no secrets in their addresses; its id is the same."""
    return replace(manifest, built=without_secrets(dict(manifest.built)))


def differing(here: bytes, there: bytes) -> Iterator[str]:
    """Yield the keys whose values differ between two configurations, both as `decisive` returns them.

    Raises:
        ValueError: one of them is not JSON.
    """
    ours, value = json.loads(here), json.loads(there)
    theirs = value if isinstance(value, dict) else {}
    for section in sorted(ours.keys() | theirs.keys()):
        left, right = ours.get(section), theirs.get(section)
        if isinstance(left, dict) and isinstance(right, dict):
            yield from (
                f"{section}.{key}" for key in sorted(left.keys() | right.keys()) if left.get(key) != right.get(key)
            )
        elif left != right:
            yield section


def _public(text: str) -> str:
    return _ADDRESS.sub(lambda found: shown(found[0]) if "@" in found[0] or "?" in found[0] else found[0], text)
