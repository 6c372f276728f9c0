"""Files beside the generations with their own digests: the inbox, and the keys of callers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from retrieve_cli.contracts import Json
from retrieve_cli.errors import IndexCorrupt, RetrieveError
from retrieve_cli.storage.inbox import Inbox
from retrieve_cli.storage.manifest import sha1
from retrieve_cli.untrusted.files import MB, read_text

KEYS = "keys.json"
_VERSION = 2
_LIMIT = 8 * MB


def read_keys(path: Path) -> list[Any]:
    """Return the entries of a file of keys; empty without a file.

    Raises:
        IndexCorrupt: their digest does not match, or the file is not a file of keys.
        RetrieveError: the file cannot be read.
    """
    try:
        value = json.loads(read_text(path, limit=_LIMIT))
        if value["version"] != _VERSION or value["sha1"] != sha1(value["keys"]):
            raise ValueError("its keys do not match their digest")
        return list(value["keys"])
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RetrieveError(f"cannot read {path}: {error.strerror}", hint="fix its permissions") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise damaged_keys(path) from error


def damaged_keys(path: Path) -> IndexCorrupt:
    """Return the error for a damaged file of keys."""
    hint = "restore it from a copy, or move it away and create the keys again: retrieve keys create"
    return IndexCorrupt(f"{path} is damaged", hint=hint)


def keys_file(entries: list[Json]) -> dict[str, Json]:
    """Return the content of a file of keys."""
    return {"version": _VERSION, "keys": entries, "sha1": sha1(entries)}


def beside(artifacts: Path) -> Mapping[str, Callable[[], object]]:
    """Return the files beside the generations that are there, by their paths in the folder, and what reads each."""
    inbox, keys = Inbox(artifacts), artifacts / KEYS
    reads: dict[Path, Callable[[], object]] = {}
    reads[inbox.path], reads[keys] = inbox.verify, lambda: read_keys(keys)
    return {str(path.relative_to(artifacts)): read for path, read in reads.items() if path.exists()}
