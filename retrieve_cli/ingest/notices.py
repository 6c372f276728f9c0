"""Notices on a source: the first of each kind on files are shown, the others counted. And the progress of reading."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial

from retrieve_cli.contracts import Countable, Json, Notice, Record, Source
from retrieve_cli.contracts.progress import Task, task
from retrieve_cli.contracts.terms.figures import count
from retrieve_cli.errors import RetrieveError, printable, shortened

_SHOWN = 3
"""Files whose notice is shown if several have the same one."""
_INFERRED = "no key is a known name or description, so these are read as fields; to fix this, write in config.yaml:"
_YAML = frozenset("y n yes no on off true false null".split())
"""Words that YAML does not read as text."""
_LARGEST = 6
"""Largest files that are named if a build will be slow."""
_NAMED, _MOST_KEYS = 5, 1000
"""Unread keys of a source that are named, and that are counted."""


class Notices:
    """The notices on one source after the other."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._counts: Counter[str] = Counter()
        self._unread: Counter[str] = Counter()
        self.inferred = False
        """True if fields of the source were inferred."""
        self.on_keys: list[str] = []
        """Sentences on keys of records that no field reads."""

    def add(self, notice: Notice) -> None:
        """Show a notice, unless several files had the same one."""
        self._counts[notice.message] += 1
        if self._counts[notice.message] <= _SHOWN:
            self._say(f"{notice.source}: {notice.message}")

    def report_mapping(self, name: str, mapping: Mapping[str, Json]) -> None:
        """Report keys whose fields were inferred, with the lines of config.yaml that fix them."""
        if mapping.get("inferred"):
            self.inferred = True
            lines = [f"{shortened(name, 40)}: {_INFERRED}", *yaml_lines(mapping)]
            self.on_keys.append("\n".join(lines))
            for line in lines:
                self._say(line)

    def count_unread(self, record: Record) -> None:
        """Count the keys of a record with text that no field reads."""
        few = len(self._unread) < _MOST_KEYS
        self._unread.update(key for key in record.unread if few or key in self._unread)

    def finish(self, name: str, *, complete: bool) -> None:
        """Report how many notices on the source of that name were not shown; if it is `complete`, also the unread
        fields."""
        if complete and self._unread:
            self.on_keys.append(f"{shortened(name, 40)}: {_sentence(self._unread, inferred=self.inferred)}")
            self._say(self.on_keys[-1])
        self._unread.clear()
        self.inferred = False
        for message, number in self._counts.items():
            if number > _SHOWN:
                self._say(f"{name}: {count(number - _SHOWN, 'more file')}: {message}")
        self._counts.clear()


def _sentence(keys: Counter[str], *, inferred: bool) -> str:
    """Return a sentence that names the most frequent keys, and the setting that reads them: alone, it would keep other
    keys from being inferred."""
    named = keys.most_common(_NAMED)
    listed = [f"{printable(shortened(key, 40))} ({count(number, 'record')})" for key, number in named]
    listed += [f"and {len(keys) - _NAMED:,} more"] if len(keys) > _NAMED else []
    names = [yaml_key(key) for key, _ in named if len(key) <= 40]
    weights = ", ".join(f"{name}: 1" for name in names)
    setting = f"{weights}, below the lines above" if inferred else f"catalog: {{fields: {{{weights}}}}}"
    what = f"{count(len(keys), 'key')} with text {'is' if len(keys) == 1 else 'are'} stored but not searched"
    return f"{what}: {', '.join(listed)}" + (f"; map them in config.yaml: {setting}" if names else "")


def yaml_lines(mapping: Mapping[str, Json]) -> list[str]:
    """Return the lines of config.yaml that give a mapping of keys."""
    return ["catalog:", "  fields:", *(f"    {yaml_key(key)}: {name}" for key, name in mapping["fields"])]


def yaml_key(key: str) -> str:
    """Return a key as YAML and JSON write it."""
    return key if key.isascii() and key.isidentifier() and key.lower() not in _YAML else json.dumps(key)


def slow(seconds: float, characters: Counter[str]) -> str:
    """Return a sentence on a build that takes so many seconds, with the share of its largest files in the text."""
    sentence = f"embedding takes about {count(round(seconds / 60), 'minute')}"
    total, largest = characters.total(), characters.most_common(_LARGEST)
    if len(characters) <= 1 or not total:
        return sentence
    share = sum(size for _, size in largest) / total
    named = ", ".join(f"{printable(shortened(file, 60))} {size / total:.0%}" for file, size in largest)
    are = f"{count(len(largest), 'file')} of {len(characters):,} are {share:.0%} of the text"
    return f"{sentence}; {are} ({named}): retrieve build --exclude PATTERN skips files".replace("%", " %")


def reading(source: Source, what: str = "reading") -> AbstractContextManager[Task]:
    """Begin the task of reading a source, counted in items."""
    unit = "records" if source.kind == "catalog" else "files"
    return task(f"{what} {shortened(source.name, 40)}", unit, partial(_count, source))


def _count(source: Source) -> int | None:
    """Return the number of items, if the source knows it; the reader reports unreadable sources."""
    try:
        return source.count() if isinstance(source, Countable) else None
    except (OSError, RetrieveError):
        return None
