"""The report of a build or sync, its progress, and the limits beyond which it does not publish.

Notices on a source: the first of each kind on files are shown, the others counted. And the progress of reading.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Literal, Protocol

from retrieve_cli.contracts import Countable, Json, Notice, Record, Refused, Source
from retrieve_cli.contracts.progress import Task, task
from retrieve_cli.contracts.terms.figures import count, noun_for
from retrieve_cli.errors import Exit, RetrieveError, SourceFailed, printable, shortened
from retrieve_cli.frozen import Frozen, field
from retrieve_cli.ingest.changes import Changes
from retrieve_cli.storage.inbox import KIND
from retrieve_cli.storage.manifest import Manifest

if TYPE_CHECKING:
    from retrieve_cli.ingest.facets import FacetCounts
    from retrieve_cli.ingest.source_checks import Replaced


_ROUNDING = 1e-9
"""Less than a record: a share such as 0.7 has no exact binary form."""

_SHARE, _FEW = 0.05, 20
"""The default limit of rejected items: this share if there are at least so many, of which it is one; of fewer, any."""

Status = Literal["published", "unchanged", "partial", "failed"]


class Report(Frozen):
    """The outcome of a build or a sync."""

    status: Status
    generation: str | None
    """The generation that is current now."""
    records: int
    chunks: int
    embedded: int = 0
    """Texts that went through the encoder; the others were in the cache."""
    changes: Changes = field(default_factory=Changes)
    """Against the generation that was current before."""
    kinds: frozenset[str] = frozenset()
    """Kinds of the sources: a folder holds documents, a catalog records."""
    quarantined: int = 0
    rejected_new: int = 0
    """Rejected items that the previous run did not have."""
    rejected: Sequence[Refused] = ()
    """Rejected items of this run; a sync with nothing to do has read nothing."""
    max_fail: float | None = 0.0
    """The limit of rejected items that held; None: the default."""
    seconds: float = 0.0
    facets: FacetCounts | None = None
    """Facets of chunks, if they are configured."""
    skipped: Sequence[str] = ()
    """Configured parts that could not be built here, as sentences."""
    notices: Sequence[str] = ()
    """Sentences on keys of records with text that no field reads."""
    same: bool = False
    """True if the generation was current already, though some items were rejected."""
    failures: Sequence[str] = ()
    """Sentences on parts of sources that could not be read, of which the index has the last state."""
    replaced: Replaced | None = None
    """The generation of other sources that a build replaced."""

    def __repr__(self) -> str:
        return printable(f"Report({self.sentence()})")

    def to_json(self) -> dict[str, Json]:
        error: dict[str, Json] = {}
        if self.status == "failed":
            hint = "fix them, or allow more: --max-fail N" if self.records else "fix them"
            error = {"code": int(Exit.PARTIAL), "kind": "rejected", "message": self.sentence(), "hint": hint}
        return {
            "status": self.status,
            "generation": self.generation,
            **self.changes.counts,
            "records": self.records,
            "chunks": self.chunks,
            "embedded": self.embedded,
            **({"facets": self.facets.to_json()} if self.facets else {}),
            "quarantined": self.quarantined,
            "rejected_new": self.rejected_new,
            "seconds": self.seconds,
            **({"skipped": list(self.skipped)} if self.skipped else {}),
            **({"notices": list(self.notices)} if self.notices else {}),
            **({"failures": list(self.failures)} if self.failures else {}),
            **({"replaced": self.replaced.to_json()} if self.replaced else {}),
            **({"error": error} if error else {}),
        }

    def sentence(self, verb: str = "") -> str:
        """Return one line for people: `published 97636fac83da: 134 documents (+0 ~1 −63), 1,995 chunks, …`."""
        items = noun_for(self.kinds)
        if self.status == "failed":
            still = f"generation {self.generation} stays current" if self.generation else "there is no index yet"
            read = count(self.records + self.quarantined, items)
            share = _SHARE if self.max_fail is None else self.max_fail
            limit = f" (limit: --max-fail {share:g})" if self.records else ""
            return f"nothing published: {self.quarantined:,} of {read} rejected{limit}; {still}"
        same = self.same or self.status == "unchanged"
        first = not (self.changes.kept or self.changes.changed or self.changes.removed)
        parts = [
            count(self.records, items) + ("" if same or first else f" ({self.changes.signs})"),
            count(self.chunks, "chunk"),
            *([] if verb or (same and not self.embedded) else [f"{self.embedded:,} embedded"]),
            *([f"{self.quarantined:,} rejected"] if self.quarantined else []),
            f"{self.seconds:.1f} s",
        ]
        return f"{verb or ('unchanged' if same else 'published')} {self.generation}: {', '.join(parts)}"


def fetch_all(sources: Iterable[Source], say: Callable[[str], None]) -> list[str]:
    """Fetch remote sources into local files, and return sentences on the parts of sources that failed.

    Raises:
        SourceFailed: a source failed as a whole.
    """
    failures: list[str] = []
    for source in sources:
        if fetched := source.fetch():
            failures += [f"{source.name}: {sentence}" for sentence in fetched.failures]
            for sentence in fetched.notes:
                say(printable(f"{source.name}: {sentence}"))
    return failures


class Progress(Protocol):
    """Receives messages while a build is under way; `retrieve_cli.contracts` counts how far it is."""

    def say(self, sentence: str) -> None:
        """Show a message to the user."""


class LossLimits(Frozen):
    """Limits beyond which nothing is published, the wait for another writer, and the number of generations to keep."""

    max_fail: float | None
    """The most rejected items: up to 1 a share of all, above 1 a number; None: a share, unless there are few items."""
    max_shrink: float = 1.0
    """Largest share of its records that a source may lose at once."""
    keep: int = 3
    wait: float = 0.0
    """Seconds."""

    def check_loss(self, current: Manifest, records: Mapping[str, int]) -> None:
        """Compare the number of records of each source with the previous one, except for an inbox, whose documents are
        removed one by one.

        Raises:
            SourceFailed: one has suddenly lost too many.
        """
        for source in current.sources:
            number = source.records if source.kind == KIND else records.get(source.name, source.records)
            if number < (1.0 - self.max_shrink) * source.records - _ROUNDING:
                items = noun_for([source.kind])
                now = f"{source.name} has {count(number, items)} now" if number else f"{source.name} is empty now"
                was = count(source.records, items) if not number else f"{source.records:,}"
                lost = f"{100 * (1.0 - number / source.records):.0f} %"
                limit = f"limit: --max-shrink {self.max_shrink:g}"
                raise SourceFailed(
                    f"{now} (was {was}); refusing to publish a loss of {lost} ({limit})",
                    hint="nothing was published; if this is intended: retrieve sync --max-shrink 1",
                )

    def tolerates(self, rejected: int, records: int) -> bool:
        """Return True if so many rejected items are few enough to publish the records."""
        if self.max_fail is None and records + rejected < _FEW:
            return records > 0 or not rejected
        limit = _SHARE if self.max_fail is None else self.max_fail
        return rejected <= (limit if limit > 1 else limit * (records + rejected)) + _ROUNDING


_SHOWN = 3
"""Files whose notice is shown if several have the same one."""
_INFERRED = "guessed the fields of these columns; to pin this mapping, add to config.yaml:"
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
        self._dropped: Counter[str] = Counter()
        self._documents = 0
        """Documents whose reader skipped text."""
        self.inferred = False
        """True if fields of the source were inferred."""
        self.on_keys: list[str] = []
        """Sentences on keys of records that no field reads, and on text that readers skipped."""

    def add(self, notice: Notice) -> None:
        """Show a notice, unless several files had the same one."""
        self._counts[notice.message] += 1
        if self._counts[notice.message] <= _SHOWN:
            self._say(f"{notice.source}: {notice.message}")

    def report_mapping(self, name: str, mapping: Mapping[str, Json]) -> None:
        """Report key, title and body, and keys whose fields were inferred with the lines of config.yaml that fix
        them."""
        for sentence in mapping.get("reading", ()):
            self._say(f"{shortened(name, 40)}: {sentence}")
        if mapping.get("inferred"):
            self.inferred = True
            lines = [f"{shortened(name, 40)}: {_INFERRED}", *yaml_lines(mapping)]
            self.on_keys.append("\n".join(lines))
            for line in lines:
                self._say(line)

    def count(self, record: Record) -> None:
        """Count the keys of a record with text that no field reads, and the texts that its reader skipped."""
        self._dropped.update(record.dropped)
        self._documents += bool(record.dropped)
        few = len(self._unread) < _MOST_KEYS
        self._unread.update(key for key in record.unread if few or key in self._unread)

    def finish(self, name: str, *, complete: bool) -> None:
        """Report how many notices on the source of that name were not shown; if it is `complete`, also the unread
        fields."""
        if complete and self._unread:
            self.on_keys.append(f"{shortened(name, 40)}: {_sentence(self._unread, inferred=self.inferred)}")
            self._say(self.on_keys[-1])
        if self._dropped:
            parts = ", ".join(count(number, kind) for kind, number in self._dropped.most_common())
            documents = f"skipped text of {count(self._documents, 'document')}: {parts}"
            self.on_keys.append(f"{shortened(name, 40)}: {documents}; retrieve inspect page FILE PAGE shows them")
            self._say(self.on_keys[-1])
        self._unread.clear()
        self._dropped.clear()
        self._documents = 0
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
