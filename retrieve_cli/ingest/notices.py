"""Notices on the sources of a build: on their files, the mapping of their keys, and text that is not searched."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping

from retrieve_cli.contracts import Notice, Record, Source
from retrieve_cli.contracts.terms.figures import count
from retrieve_cli.errors import printable, shortened
from retrieve_cli.ingest.items import mapping_of

_SHOWN = 3
"""Files whose notice is shown if several have the same one."""
_NAMED, _LONGEST = 5, 40
"""Unread keys of a source that are named, and characters of a name that are shown."""
_MOST_KEYS = 1000
"""Unread keys of a source that are counted: a hostile catalog may have others in each record."""
_INFERRED = "guessed the fields of these columns; to pin this mapping, add to config.yaml:"
_YAML = frozenset("y n yes no on off true false null".split())
"""Words that YAML does not read as text."""


class Notices:
    """The notices on one source after the other."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.on_keys: list[str] = []
        """Sentences on guessed mappings, keys of records that no field reads, and text that readers skipped."""
        self._begin()

    def _begin(self) -> None:
        """Begin with the next source."""
        self._files = Counter[str]()
        """Files by notice."""
        self._unread = Counter[str]()
        self._skipped = Counter[str]()
        self._documents = 0
        """Documents whose reader skipped text."""

    def add(self, notice: Notice) -> None:
        """Show a notice, unless several files had the same one."""
        self._files[notice.message] += 1
        if self._files[notice.message] <= _SHOWN:
            self._say(f"{notice.source}: {notice.message}")

    def count(self, record: Record) -> None:
        """Count the keys of a record with text that no field reads, and the texts that its reader skipped."""
        few = len(self._unread) < _MOST_KEYS
        for key in record.unread:
            if few or key in self._unread:
                self._unread[key] += 1
        if record.dropped:
            self._skipped.update(record.dropped)
            self._documents += 1

    def finish(self, source: Source, *, complete: bool) -> None:
        """Report key, title and body of a source that was read, fields that were inferred with the lines of config.yaml
        that pin them, skipped text and notices that were not shown; if it is `complete`, also the unread keys."""
        name, mapping = shortened(source.name, _LONGEST), mapping_of(source)
        for sentence in mapping.get("reading", ()):
            self._say(f"{name}: {sentence}")
        inferred = bool(mapping.get("inferred"))
        if inferred:
            fields = (f"    {_yaml_key(key)}: {field}" for key, field in mapping["fields"])
            self._report(f"{name}: {_INFERRED}", "catalog:", "  fields:", *fields)
        if complete and self._unread:
            self._report(f"{name}: {_on_unread(self._unread, inferred=inferred)}")
        if self._skipped:
            parts = ", ".join(count(number, kind) for kind, number in self._skipped.most_common())
            documents = f"skipped text of {count(self._documents, 'document')}: {parts}"
            self._report(f"{name}: {documents}; retrieve inspect page FILE PAGE shows them")
        for message, number in self._files.items():
            if number > _SHOWN:
                self._say(f"{name}: {count(number - _SHOWN, 'more file')}: {message}")
        self._begin()

    def _report(self, *lines: str) -> None:
        self.on_keys.append("\n".join(lines))
        for line in lines:
            self._say(line)


def _on_unread(keys: Mapping[str, int], *, inferred: bool) -> str:
    """Return a sentence that names the most frequent keys, and the setting that reads them: alone, it would keep other
    keys from being inferred."""
    named = Counter(keys).most_common(_NAMED)
    listed = [f"{printable(shortened(key, _LONGEST))} ({count(number, 'record')})" for key, number in named]
    if len(keys) > _NAMED:
        listed.append(f"and {len(keys) - _NAMED:,} more")
    what = f"{count(len(keys), 'key')} with text {'is' if len(keys) == 1 else 'are'} stored but not searched"
    weights = ", ".join(f"{_yaml_key(key)}: 1" for key, _ in named if len(key) <= _LONGEST)
    setting = f"{weights}, below the lines above" if inferred else f"catalog: {{fields: {{{weights}}}}}"
    return f"{what}: {', '.join(listed)}" + (f"; map them in config.yaml: {setting}" if weights else "")


def _yaml_key(key: str) -> str:
    """Return a key as YAML and JSON write it."""
    return key if key.isascii() and key.isidentifier() and key.lower() not in _YAML else json.dumps(key)
