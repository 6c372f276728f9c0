"""Ids of TREC runs that were percent-encoded (`output/trec_ids.py`), decoded again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.output.trec_ids import FLAG, KINDS, TrecIds
from retrieve_cli.untrusted import files

if TYPE_CHECKING:
    from retrieve_cli.evaluation.judgments import Run, Topic

_FORM = "a line is: query or document, the encoded id, the id, separated by tabs"


def read_ids(path: Path) -> TrecIds:
    """Return the spellings in a file of ids.

    Raises:
        UsageError: it cannot be read, a line has another form, or an id is repeated.
    """
    try:
        text = files.read_text(path, limit=files.JUDGMENTS, encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"cannot read {path}: {reason}", hint="check the path; the file must be UTF-8") from error
    found: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
    seen: set[tuple[str, str]] = set()
    for number, line in enumerate(text.split("\n"), 1):
        if not line:
            continue
        kind, word, name = _columns(line, f"{path}:{number}")
        if name in found[kind] or (kind, word) in seen:
            raise UsageError(f"{path}:{number}: {quoted(line)} is repeated", hint="keep one of the two")
        found[kind][name] = word
        seen.add((kind, word))
    return TrecIds(*found.values())


class Matched(NamedTuple):
    """A run under its decoded ids."""

    run: Run
    notes: list[str]


def matched(run: Run, topics: Iterable[Topic], ids: TrecIds | None) -> Matched:
    """Return a run under the ids of a file of ids.

    Without such a file, encoded ids become the judged ids that they decode to if that is unambiguous: the encoded
    form has no judgment, and no other id of the list decodes to the same.
    """
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
        ids_of_run = _of_run(len(doubtful), "decodes", "decode")
        notes.append(f"{ids_of_run} to an id that its list has ({quoted(min(doubtful))}): not decoded; use {FLAG}")
    return Matched(found, notes)


def _of_run(count: int, one: str, several: str) -> str:
    return f"1 id of the run {one}" if count == 1 else f"{count:,} ids of the run {several}"


class _Decoded:
    """Decoding of the words of a file to ids."""

    def __init__(self, known: Mapping[str, None], given: Mapping[str, str] | None = None) -> None:
        """Take the ids by word if there is a file of ids (`given`), else the ids that words may decode to (`known`)."""
        self._known = known
        self._given = given
        self.used: set[str] = set()
        self.doubtful: set[str] = set()

    def renamed(self, values: Mapping[str, Mapping[str, float]] | Mapping[str, float]) -> dict[str, Any]:
        """Return the values under the ids; a word whose id exists already stays unchanged."""
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


def _columns(line: str, where: str) -> tuple[str, str, str]:
    """Return kind, word and id of a line."""
    columns = line.split("\t")
    if len(columns) != len(("kind", "word", "id")) or columns[0] not in KINDS:
        raise UsageError(f"{where} is not `query|document TAB encoded TAB id`", hint=_FORM)
    try:
        name = json.loads(f'"{columns[2]}"')
        name.encode()
    except ValueError as error:
        raise UsageError(f"{where}: {quoted(columns[2])} is not an id with JSON's escapes", hint=_FORM) from error
    return columns[0], columns[1], name
