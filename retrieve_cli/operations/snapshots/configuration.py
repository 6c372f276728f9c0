"""The configuration that goes into a snapshot, without possible secrets: keys, users and queries of addresses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from retrieve_cli.config.loading import read_yaml
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError
from retrieve_cli.frozen import replace
from retrieve_cli.http.addresses import shown
from retrieve_cli.output.run_account import configuration
from retrieve_cli.storage.manifest import Manifest
from retrieve_cli.untrusted.files import CONFIG, read_text

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
    return _ADDRESS.sub(lambda found: _shown(found[0]), text)


def _shown(address: str) -> str:
    """Return the address for people; unchanged if there is nothing to hide."""
    return address if not ("@" in address or "?" in address) else shown(address)
