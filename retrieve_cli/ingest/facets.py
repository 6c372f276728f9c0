"""Facets of chunks on their way into a generation: from the cache, or made now; and the records that wait for them.

A record is written after its chunks have their facets. Records wait as long as memory allows, so that many requests
are under way at once and their number is known before the first is sent; what follows them waits as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.assemble.chunkers import Facets
from retrieve_cli.contracts import Chunk, Json
from retrieve_cli.contracts.progress import task
from retrieve_cli.contracts.terms.figures import count
from retrieve_cli.errors import Unavailable
from retrieve_cli.frozen import Frozen
from retrieve_cli.storage.entries import FACETS, EntryStore
from retrieve_cli.storage.key_rows import KeyRows, as_keys
from retrieve_cli.storage.manifest import canonical, text_key
from retrieve_cli.storage.records.sections import facets_of

if TYPE_CHECKING:
    from retrieve_cli.storage.segment import Segment

_MOST_TEXT = 16 << 20
"""Characters of chunks that wait: about 16,000 chunks."""
_WORDS = {
    "unavailable": "the server did not answer",
    "rejected": "the server rejected the request",
    "invalid_answer": "the answer could not be used",
    "cut_off": "the answer was longer than facets.max_tokens",
    "budget_spent": "facets.max_tokens_total was spent",
    "not_asked": "not asked, because the server does not answer",
}

Made = Mapping[str, str] | None


class FacetCounts(Frozen):
    """Numbers of distinct texts by the origin of their facets, and the tokens they cost."""

    made: int = 0
    cached: int = 0
    failed: Mapping[str, int] = {}
    """Texts without facets, by kind of failure."""
    tokens: int = 0
    detail: str = ""
    """The first failure as a sentence."""

    def to_json(self) -> dict[str, Json]:
        counts = {"made": self.made, "cached": self.cached, "failed": sum(self.failed.values())}
        return {**counts, "reasons": dict(sorted(self.failed.items())), "tokens": self.tokens}

    def sentences(self) -> list[str]:
        """Return the same for people."""
        tokens = f", {count(self.tokens, 'token')}" if self.tokens else ""
        made = f"facets: {self.made:,} made, {self.cached:,} from the cache{tokens}"
        if not self.failed:
            return [made]
        reasons = "; ".join(f"{_WORDS.get(reason, reason)} ({count:,})" for reason, count in self.failed.items())
        without = f"{count(sum(self.failed.values()), 'chunk')} without facets: {reasons}"
        first = [f"the first failure: {self.detail}"] if self.detail else []
        return [made, without, *first, "the next build asks for these again; all others are in the cache"]


class Faceting:
    """Gives chunks their facets, and counts."""

    def __init__(
        self,
        facets: Facets,
        cache: Path,
        lenders: Sequence[Segment],
        *,
        say: Callable[[str], None],
        asks: bool = True,
    ) -> None:
        """`cache` has the facets of an unfinished build, `lenders` the facets of older generations. Without `asks`,
        chunks have only the facets that are there."""
        self._maker = facets.maker
        self._required = facets.required and asks
        self._cache = EntryStore(cache, FACETS, dict(facets.maker.card), say=say)
        alike = [segment for segment in lenders if segment.manifest.recipe.facets == facets.maker.card]
        self._lent = [(segment, KeyRows(as_keys(segment.texts))) for segment in alike]
        self._say = say
        self._asks = asks
        self._seen: set[bytes] = set()
        self._said = False
        self._counts = {"made": 0, "cached": 0, "tokens": 0}
        self._failed: Counter[str] = Counter()
        self._detail = ""

    @property
    def counts(self) -> FacetCounts:
        return FacetCounts(**self._counts, failed=dict(self._failed), detail=self._detail)

    def facets(self, chunks: Sequence[Chunk], *, all_read: bool) -> list[Made]:
        """Return the facets of chunks, None for those that have none; `all_read` if no more chunks follow.

        Raises:
            Unavailable: facets are required, and a chunk has none.
        """
        keys = [text_key(chunk.embedded) for chunk in chunks]
        found = self._kept(list(dict.fromkeys(keys)))
        wanted = {key: chunk for key, chunk in zip(keys, chunks, strict=True) if key not in found}
        if wanted and self._asks:
            new = {key: chunk for key, chunk in wanted.items() if key not in self._seen}
            if new and self._maker.address and not self._said:
                self._said = True
                number = count(len(new), "chunk") if all_read else f"{len(new):,} chunks, and later more,"
                self._say(f"sending {number} of text to {self._maker.address} for summaries (facets.base_url)")
            found |= dict(self._made(list(new), list(new.values())))
        self._seen.update(keys)
        # In the order of their names on the card, wherever they come from.
        return [
            made and {name: made[name] for name in self._maker.card["names"] if name in made}
            for made in map(found.get, keys)
        ]

    def _kept(self, keys: Sequence[bytes]) -> dict[bytes, Made]:
        """Return the facets that texts have already."""
        wanted = as_keys(keys)
        rows = self._cache.find(wanted)
        found: dict[bytes, Made] = {}
        for key, row in zip(keys, rows.tolist(), strict=True):
            if row >= 0:
                found[key] = _read(self._cache.read(np.array([row])).columns[0])
        for segment, texts in self._lent:
            for key, row in zip(keys, texts.find(wanted).tolist(), strict=True):
                if row >= 0 and key not in found and "facets" in (chunk := segment.chunks[row]):
                    found[key] = facets_of(chunk)
        self._counts["cached"] += len(found.keys() - self._seen)
        return found

    def _made(self, keys: Sequence[bytes], chunks: Sequence[Chunk]) -> Iterator[tuple[bytes, Made]]:
        """Yield the facets that are made now, each stored before the next one."""
        with task("facets", "chunks", len(keys)) as working, closing(self._maker.make(chunks)) as answers:
            for answer in answers:
                working.advance()
                self._counts["tokens"] += answer.tokens
                if answer.facets is not None:
                    self._counts["made"] += 1
                    entry = np.frombuffer(canonical(dict(answer.facets)), np.uint8)
                    # An answer of a server is written when it comes, because it cost money and time.
                    self._cache.add([keys[answer.place]], [(entry,)], stored=bool(self._maker.address))
                    yield keys[answer.place], answer.facets
                    continue
                self._failed[answer.reason] += 1
                self._detail = self._detail or answer.detail
                if self._required:
                    why = answer.detail or _WORDS.get(answer.reason, answer.reason)
                    hint = f"{self._counts['made']:,} made now are kept: run it again, or set facets.policy: optional"
                    raise Unavailable(f"a chunk has no facets, and facets.policy is required: {why}", hint=hint)


class FacetQueue:
    """Records that wait for their facets, and the pending actions on them and on later items, in order."""

    def __init__(self, faceting: Faceting) -> None:
        self._faceting = faceting
        self._chunks: list[Chunk] = []
        self._characters = 0
        self._steps: list[Callable[[Iterator[Made]], None]] = []

    def add(self, chunks: Sequence[Chunk], write: Callable[[Sequence[Made]], None]) -> None:
        """Have `write` called with the facets of the chunks of a record."""
        self._chunks += chunks
        self._characters += sum(len(chunk.text) for chunk in chunks)
        self._steps.append(lambda made: write([next(made) for _ in chunks]))
        if self._characters > _MOST_TEXT:
            self.release()

    def then(self, step: Callable[[], None]) -> None:
        """Have a step done after all that waits; at once if nothing does."""
        if self._steps:
            self._steps.append(lambda _: step())
        else:
            step()

    def release(self, *, all_read: bool = False) -> None:
        """Do all that waits."""
        chunks, steps = self._chunks, self._steps
        self._chunks, self._characters, self._steps = [], 0, []
        made = iter(self._faceting.facets(chunks, all_read=all_read) if chunks else [])
        for step in steps:
            step(made)


def _read(stored: np.ndarray) -> dict[str, str]:
    """Return the facets of an entry; empty if it is damaged."""
    import orjson

    value: Json = None
    with suppress(ValueError):
        value = orjson.loads(stored.tobytes())
    return facets_of({"facets": value})
