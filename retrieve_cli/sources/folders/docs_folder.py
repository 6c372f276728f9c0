"""A folder of documents, read recursively in the order of their paths; formats are the matter of a document reader."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from retrieve_cli.contracts import (
    HEAD,
    DocumentFile,
    DocumentReader,
    Item,
    Json,
    Notice,
    Parsed,
    Reading,
    Record,
    Refused,
    SourceKind,
)
from retrieve_cli.errors import BadDocument, NotADocument, UsageError
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.sources.digests import BOM, absolute, document_digest, sidecar_of
from retrieve_cli.sources.folders.folder_marks import counts, marks_of_folders
from retrieve_cli.sources.folders.ignore_rules import FILE as GITIGNORE, IgnoreRules, Selection
from retrieve_cli.sources.parsed_record import parsed_record
from retrieve_cli.untrusted import files

MODIFIED = "modified"
"""Field with the time of a file, unless the document itself has one of that name."""
MOST_NAMED = 8
"""Number of skipped links or empty files that a notice names."""


class _Entry(Frozen):
    """A name in a folder."""

    path: str
    folder: bool
    link: bool
    place: tuple[int, int]
    """Device and inode of the file or folder, or of the target of a link."""


class FolderWalk:
    """Walk over a folder. Symbolic links are followed only with `follow_links`: they may lead out of the folder."""

    def __init__(self, path: Path, name: str, *, follow_links: bool, selection: Selection = Selection()) -> None:
        """`name` is the name of the source, for notices."""
        self._path = path
        self._name = name
        self._follow_links = follow_links
        self._selection = selection

    def __iter__(self) -> Iterator[str | Refused | Notice]:
        """Yield paths of files relative to the folder, in order of their parts. Each real folder is read once.

        Raises:
            OSError: the folder itself cannot be read.
        """
        top = self._path.stat()
        seen = {(top.st_dev, top.st_ino)}
        links: list[str] = []
        excluded: dict[str, list[str]] = {}
        rules = IgnoreRules(self._path, self._selection)
        waiting = self._entries("")
        while waiting:
            item = waiting.pop()
            if not isinstance(item, _Entry):
                yield item
            elif item.folder and item.path.rpartition("/")[2].startswith("."):
                yield Notice(item.path, "skipped: hidden folder")
            elif by := rules.skips(item.path, folder=item.folder):
                excluded.setdefault(by, []).append(item.path + "/" * item.folder)
            elif item.link and not self._follow_links:
                links.append(item.path)
            elif not item.folder:
                yield item.path
            elif item.place in seen:
                real = os.path.realpath(self._path / item.path)
                yield Notice(item.path, f"skipped: this link leads back to {real}, which is already read")
            else:
                seen.add(item.place)
                waiting += self._entries(item.path + "/")
        if links:
            skipped = counted(links, "symbolic link")
            yield Notice(self._name, f"skipped {skipped}; docs.follow_links: true follows them")
        yield from rules.notices
        for by, paths in excluded.items():
            reason = f"{by} (docs.gitignore: false reads them)" if by == GITIGNORE else by
            yield Notice(self._name, f"skipped {counted(paths, 'file or folder')}: {reason}")

    def _entries(self, prefix: str) -> list[_Entry | Refused]:
        """Return the entries of a folder, last name first; an entry without a status is rejected."""
        listed: list[_Entry | Refused] = []
        try:
            entries = sorted(os.scandir(self._path / prefix), key=lambda entry: entry.name, reverse=True)
        except OSError as error:
            return [Refused(prefix or ".", 1, f"the folder cannot be read: {error.strerror}")]
        for entry in entries:
            path = prefix + entry.name
            try:
                path.encode()
                status = entry.stat(follow_symlinks=self._follow_links)
                place = status.st_dev, status.st_ino
                listed.append(_Entry(path, stat.S_ISDIR(status.st_mode), entry.is_symlink(), place))
            except UnicodeEncodeError:
                listed.append(Refused(_text(path), 1, "its name is not UTF-8; rename it"))
            except OSError as error:  # also of a dangling link, if links are followed
                listed.append(Refused(path, 1, f"it cannot be read: {error.strerror}"))
        return listed


def counted(paths: list[str], what: str) -> str:
    """Return the number of paths and the names of the first ones."""
    shown = ", ".join(_text(path) for path in paths[:MOST_NAMED])
    more = f" and {len(paths) - MOST_NAMED} more" if len(paths) > MOST_NAMED else ""
    plural = what if len(paths) == 1 else " or ".join(f"{word}s" for word in what.split(" or "))
    return f"{len(paths)} {plural} ({shown}{more})"


def _text(value: str) -> str:
    """Return a string that UTF-8 can encode."""
    return value.encode("utf-8", "replace").decode()


class FolderSource:
    """Every file of a known format; the id is the path, the group the first folder or the document's own."""

    kind: SourceKind = "docs"

    def __init__(
        self,
        path: Path,
        reader: DocumentReader,
        *,
        name_weight: float,
        name: str = "",
        id_prefix: str = "",
        follow_links: bool = False,
        selection: Selection = Selection(),
        exclude: Sequence[str] = (),
    ) -> None:
        """`exclude` has more patterns, of the entry of the source. Raises: UsageError if `path` is not a folder."""
        self.path = path
        self._reader = reader
        self._place = absolute(path)
        self.name = name or self._place.name
        self._name_weight = name_weight
        self._id_prefix = id_prefix
        self._follow_links = follow_links
        self._exclude = list(exclude)
        self._selection = replace(selection, exclude=[*selection.exclude, *exclude])
        self._walk = FolderWalk(path, self.name, follow_links=follow_links, selection=self._selection)
        try:
            folder = stat.S_ISDIR(path.stat().st_mode)
        except OSError as error:
            raise UsageError(f"cannot read the folder {path}: {error.strerror}", hint="check the path") from error
        if not folder:
            raise UsageError(f"{path} is a file; --docs-dir takes a folder", hint=f"for a catalog: --catalog {path}")

    @property
    def card(self) -> Mapping[str, Json]:
        return {"kind": self.kind, "name_weight": self._name_weight}

    @property
    def origin(self) -> Mapping[str, Json]:
        exclude = {"exclude": self._exclude} if self._exclude else {}
        return {"kind": self.kind, "name": self.name, "path": str(self._place), "id_prefix": self._id_prefix, **exclude}

    def fetch(self) -> None:
        """Do nothing: the folder is local."""

    def stamp(self) -> None:
        """Return None: a query checks the file of each hit instead."""

    def folders(self) -> Mapping[str, Json]:
        """Return the marks of the folders inside."""
        return marks_of_folders(self.path, self._reader.suffixes, IgnoreRules(self.path, self._selection))

    def size(self, most: int) -> int:
        """Return the bytes of all files that would be read, or a larger number than `most` if there are more.

        Raises:
            OSError: the folder cannot be read.
        """
        total = 0
        for item in self._walk:
            if isinstance(item, str) and counts(item, self._reader.suffixes) and total <= most:
                with suppress(OSError):  # an unreadable file is rejected when it is read
                    total += (self.path / item).stat(follow_symlinks=self._follow_links).st_size
        return total

    def count(self) -> int:
        """Return the number of files with the suffix of a document, or without any.

        Raises:
            OSError: the folder cannot be read.
        """
        return sum(isinstance(item, str) and counts(item, self._reader.suffixes) for item in self._walk)

    def scan(self) -> Iterator[Item | Refused | Notice]:
        skipped = _Skipped()
        for item in self._walk:
            if not isinstance(item, str):
                yield item
            elif item.rpartition("/")[2].startswith("."):
                skipped.others["hidden"] += 1
            elif item not in skipped.sidecars and (read := self._file(item, skipped)) is not None:
                yield read
        yield from (Notice(self.name, sentence) for sentence in skipped.sentences())

    def _file(self, path: str, skipped: _Skipped) -> Item | Refused | None:
        """Return the file as an item; None if it is skipped."""
        place = self.path / path
        try:
            with files.open_regular(place) as file:
                head = file.read(HEAD)
            kind = self._reader.format_of(path, head)
            if kind is None:
                skipped.others[Path(path).suffix.lower() or "no extension"] += 1
            elif len(head) < HEAD and not head.removeprefix(BOM).strip():
                skipped.empty.append(path)
            elif reason := self._reader.lacks(kind):
                skipped.lacking[reason] += 1
            else:
                return self._item(path, kind, skipped)
        except OSError as error:
            return Refused(path, 1, f"it cannot be read: {error.strerror}")
        return None

    def _item(self, path: str, kind: str, skipped: _Skipped) -> Item:
        """Return the item of a file that its parser reads, perhaps in the background. Raises: OSError: it cannot be
        read, or is too large."""
        place, card = self.path / path, self._reader.card(kind)
        sidecar = sidecar_of(place, card)
        if sidecar is not None:
            skipped.sidecars.add(str(Path(path).with_name(sidecar.name)))
        file = DocumentFile(place, files.sha1_of(place, limit=self._reader.max_bytes(kind)), sidecar)
        readings: list[Reading] = []

        def begin() -> None:
            if not readings:
                readings.append(self._reader.begin(file, kind, name=path))

        def read() -> Iterator[Record | Refused | Notice]:
            begin()
            return self._pieces(path, kind, readings.pop().result)

        digest = document_digest(path, self._id_prefix, card, file.sha1, sidecar)
        return Item(digest, path, 1, read, begin)

    def _pieces(self, path: str, kind: str, parse: Callable[[], Parsed]) -> Iterator[Record | Refused | Notice]:
        try:
            parsed = parse()
        except BadDocument as error:
            reason = f"{error.message}; {error.hint}" if error.hint else error.message
            skipped = isinstance(error, NotADocument)
            yield Notice(path, f"skipped: {reason}") if skipped else Refused(path, 1, reason)
            return
        for notice in parsed.notices:
            yield Notice(path, notice)
        record = parsed_record(parsed, path, kind, id_=self._id_prefix + path, name_weight=self._name_weight)
        if isinstance(record, str):
            yield Refused(path, 1, record)
            return
        # No part of the digest: a file that was copied with another time has not changed.
        yield replace(record, metadata={MODIFIED: self._time_of(path), **record.metadata})

    def _time_of(self, path: str) -> str | None:
        """Return the time of a file in ISO 8601; None if it is gone by now."""
        with suppress(OSError, ValueError, OverflowError):
            moment = (self.path / path).stat().st_mtime
            return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return None


class _Skipped:
    """Files that a scan skips."""

    def __init__(self) -> None:
        self.others: Counter[str] = Counter()
        """Numbers of files that are not documents, by suffix."""
        self.empty: list[str] = []
        self.lacking: Counter[str] = Counter()
        """Numbers of documents by the reason why their format cannot be read here."""
        self.sidecars: set[str] = set()
        """Texts that belong to another file."""

    def sentences(self) -> Iterator[str]:
        """Yield a sentence on each kind of skipped files."""
        for reason, count in self.lacking.items():
            yield f"skipped {count} file{'s' * (count != 1)}: {reason}"
        if self.empty:
            yield f"skipped {counted(self.empty, 'empty file')}"
        if self.others:
            count, hidden = self.others.total(), self.others["hidden"]
            kinds = ", ".join(f"{suffix} {number}" for suffix, number in self.others.most_common(8))
            one = "hidden file" if hidden else "file that is not a document"
            many = f"files that are not documents{', or are hidden' * bool(hidden)}"
            yield f"skipped {count} {one if count == 1 else many} ({kinds})"
