"""Ids in a TREC run, whose columns are separated by white space.

An id without white space or control characters is written unchanged. Any other id is percent-encoded (RFC 3986),
percent signs included, so that decoding restores it. A file of ids serves programs that do not decode:
`query|document TAB encoded TAB id` per line, for encoded ids only, the last column with JSON's escapes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from retrieve_cli.errors import UsageError, escaped_json, quoted

FLAG = "--trec-ids FILE"
KINDS = ("query", "document")


class TrecIds(NamedTuple):
    """Spelling of ids in a TREC file: by id, those that are encoded there."""

    queries: Mapping[str, str]
    documents: Mapping[str, str]

    @classmethod
    def of(cls, queries: Iterable[str], documents: Iterable[str]) -> TrecIds:
        """Return the spellings of ids. Raises: UsageError: two ids would be written alike."""
        return cls(_encoded(queries), _encoded(documents))

    def query(self, name: str) -> str:
        return self.queries.get(name, name)

    def document(self, name: str) -> str:
        return self.documents.get(name, name)

    def __bool__(self) -> bool:
        return bool(self.queries or self.documents)

    @property
    def notice(self) -> str:
        """Return a sentence on the ids that were encoded."""
        (name, word), *_ = [*self.documents.items(), *self.queries.items()]
        count = len(self.queries) + len(self.documents)
        what = f"{count:,} ids with white space are" if count > 1 else "1 id with white space is"
        return f"{what} percent-encoded in the TREC run ({quoted(name)} as {word}): {FLAG} writes the list"

    def lines(self) -> str:
        """Return the content of the file of ids."""
        return "".join(
            f"{kind}\t{word}\t{escaped_json(json.dumps(name, ensure_ascii=False))[1:-1]}\n"
            for kind, words in zip(KINDS, self, strict=True)
            for name, word in words.items()
        )


def _encoded(ids: Iterable[str]) -> dict[str, str]:
    """Return the spelling of ids that need one; no two ids are written alike."""
    names = dict.fromkeys(ids)
    odd = [name for name in names if not _holds(name)]
    if not odd:
        return {}
    from urllib.parse import quote

    taken = names.keys() - set(odd)
    found = {}
    for name in odd:
        word = "".join(char if _holds(char) and char != "%" else quote(char) for char in name)
        if word in taken:  # an id has this very spelling
            word = "".join(f"%{byte:02X}" for byte in name.encode())
        if word in taken:
            message = f"a TREC run cannot distinguish the ids {quoted(name)} and {quoted(word)}"
            raise UsageError(message, hint="use --format json or --per-query-out, which accept any id")
        found[name] = word
        taken.add(word)
    return found


def _holds(text: str) -> bool:
    return text.isprintable() and " " not in text and len(text.split()) == 1
