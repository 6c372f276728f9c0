"""Ids in TREC files, whose columns are set apart by white space: how they are encoded, and what they stand for.

An id without white space or control characters stands there as it is. Any other one is encoded by RFC 3986, its percent
signs too, so that decoding gives it back. A file of ids says so for programs that decode nothing:
`query|document TAB encoded TAB id` a line, for the ids that were encoded alone, the last column with JSON's escapes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from retrieve_cli.errors import UsageError, escaped_json, quoted
from retrieve_cli.untrusted import files

if TYPE_CHECKING:
    from retrieve_cli.evaluation.judgments import Run, Topic

FLAG = "--trec-ids FILE"
_KINDS = ("query", "document")
_FORM = "a line is: query or document, the encoded id, the id, set apart by tabs"


class TrecIds(NamedTuple):
    """Spelling of ids in a TREC file: by id, those that are encoded there."""

    queries: Mapping[str, str]
    documents: Mapping[str, str]

    @classmethod
    def of(cls, queries: Iterable[str], documents: Iterable[str]) -> TrecIds:
        """Raises: UsageError if two ids would be written alike."""
        return cls(_encoded(queries), _encoded(documents))

    def query(self, name: str) -> str:
        return self.queries.get(name, name)

    def document(self, name: str) -> str:
        return self.documents.get(name, name)

    def __bool__(self) -> bool:
        return bool(self.queries or self.documents)

    @property
    def notice(self) -> str:
        """A sentence on the ids that were encoded."""
        (name, word), *_ = [*self.documents.items(), *self.queries.items()]
        count = len(self.queries) + len(self.documents)
        what = f"{count} ids hold white space and are" if count > 1 else "an id holds white space and is"
        return f"{what} percent-encoded in the TREC run ({quoted(name)} as {word}): {FLAG} writes which is which"

    def lines(self) -> str:
        """The file of ids."""
        return "".join(
            f"{kind}\t{word}\t{escaped_json(json.dumps(name, ensure_ascii=False))[1:-1]}\n"
            for kind, words in zip(_KINDS, self, strict=True)
            for name, word in words.items()
        )


def read_ids(path: Path) -> TrecIds:
    """A file of ids.

    Raises:
        UsageError: it cannot be read, a line is something else, or an id is there twice.
    """
    try:
        text = files.read_text(path, limit=files.JUDGMENTS, encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"cannot read {path}: {reason}", hint="check the path; the file must be UTF-8") from error
    found: dict[str, dict[str, str]] = {kind: {} for kind in _KINDS}
    seen: set[tuple[str, str]] = set()
    for number, line in enumerate(text.split("\n"), 1):
        if not line:
            continue
        kind, word, name = _columns(line, f"{path}:{number}")
        if name in found[kind] or (kind, word) in seen:
            raise UsageError(f"{path}:{number}: {quoted(line)} is there twice", hint="keep one of the two")
        found[kind][name] = word
        seen.add((kind, word))
    return TrecIds(*found.values())


class Matched(NamedTuple):
    """A run under the ids that were meant."""

    run: Run
    notes: list[str]


def matched(run: Run, topics: Iterable[Topic], ids: TrecIds | None) -> Matched:
    """A run that was read, under the ids of a file of ids; without one, encoded ids become the judged ids that they
    decode to, where that is what they can only mean: they are not judged as they stand, and no other id of the list
    means the same."""
    topics = list(topics)
    judged = dict.fromkeys(name for topic in topics for name in topic.grades)
    if ids is None:
        queries, documents = _Decoded({topic.id: None for topic in topics}), _Decoded(judged)
    else:
        queries, documents = (_Decoded({}, {word: name for name, word in words.items()}) for words in ids)
    found = {name: documents.renamed(scores) for name, scores in queries.renamed(run).items()}
    notes = []
    if ids is None and (count := len(queries.used) + len(documents.used)):
        notes.append(f"{_of_run(count, 'is', 'are')} percent-encoded: decoded to judged ids")
    if doubtful := queries.doubtful | documents.doubtful:
        said = _of_run(len(doubtful), "decodes", "decode")
        notes.append(f"{said} to what its list holds already ({quoted(min(doubtful))}): not decoded; {FLAG} tells them")
    return Matched(found, notes)


def _of_run(count: int, one: str, several: str) -> str:
    return f"an id of the run {one}" if count == 1 else f"{count} ids of the run {several}"


class _Decoded:
    """Words of a file to the ids that they stand for."""

    def __init__(self, known: Mapping[str, None], given: Mapping[str, str] | None = None) -> None:
        """`given` are the ids by word, where a file says so; else `known` are the ids that a word may decode to."""
        self._known = known
        self._given = given
        self.used: set[str] = set()
        self.doubtful: set[str] = set()

    def renamed(self, values: Mapping[str, Mapping[str, float]] | Mapping[str, float]) -> dict[str, Any]:
        """The values under the ids; a word whose id is there already stays as it is."""
        meant = {word: self._meant(word) for word in values}
        claims: dict[str, int] = {}
        for name in meant.values():
            claims[name] = claims.get(name, 0) + 1
        found: dict[str, Any] = {}
        for word, name in meant.items():
            if name == word or claims[name] == 1:
                found[name] = values[word]
                self.used |= {word} - {name}
            else:
                found[word] = values[word]
                self.doubtful.add(word)
        return found

    def _meant(self, word: str) -> str:
        if self._given is not None:
            return self._given.get(word, word)
        if "%" not in word or word in self._known:
            return word
        from urllib.parse import unquote

        try:
            name = unquote(word, errors="strict")
        except UnicodeDecodeError:
            return word
        return name if name in self._known else word


def _encoded(ids: Iterable[str]) -> dict[str, str]:
    """By id, those that a column cannot hold as they are; no two ids are written alike."""
    names = dict.fromkeys(ids)
    odd = [name for name in names if not _holds(name)]
    if not odd:
        return {}
    from urllib.parse import quote

    taken = names.keys() - set(odd)
    found = {}
    for name in odd:
        word = "".join(char if _holds(char) and char != "%" else quote(char) for char in name)
        if word in taken:  # somebody is called so
            word = "".join(f"%{byte:02X}" for byte in name.encode())
        if word in taken:
            message = f"a TREC run cannot tell the id {quoted(name)} from {quoted(word)}"
            raise UsageError(message, hint="--format json and --per-query-out have no such limit")
        found[name] = word
        taken.add(word)
    return found


def _holds(text: str) -> bool:
    """Return True if a column can hold a text as it is."""
    return text.isprintable() and " " not in text and len(text.split()) == 1


def _columns(line: str, where: str) -> tuple[str, str, str]:
    """Kind, word and id of a line."""
    columns = line.split("\t")
    if len(columns) != len(("kind", "word", "id")) or columns[0] not in _KINDS:
        raise UsageError(f"{where} is not `query|document TAB encoded TAB id`", hint=_FORM)
    try:
        name = json.loads(f'"{columns[2]}"')
        name.encode()
    except ValueError as error:
        raise UsageError(f"{where}: {quoted(columns[2])} is no id with JSON's escapes", hint=_FORM) from error
    return columns[0], columns[1], name
