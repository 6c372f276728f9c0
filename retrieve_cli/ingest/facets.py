"""Facets of chunks on their way into a generation: from the cache, or made now, many at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.assemble.chunkers import Facets
from retrieve_cli.contracts import Chunk, Json
from retrieve_cli.contracts.progress import task
from retrieve_cli.contracts.terms.figures import count
from retrieve_cli.errors import Unavailable
from retrieve_cli.storage.entries import FACETS, EntryStore
from retrieve_cli.storage.key_rows import KeyRows, as_keys
from retrieve_cli.storage.manifest import canonical, text_key
from retrieve_cli.storage.records.sections import facets_of

if TYPE_CHECKING:
    from retrieve_cli.storage.segment import Segment

_WORDS = {
    "unavailable": "the server did not answer",
    "rejected": "the server rejected the request",
    "invalid_answer": "the answer could not be used",
    "cut_off": "the answer was longer than facets.max_tokens",
    "budget_spent": "facets.max_tokens_total was spent",
    "not_asked": "not asked, because the server does not answer",
}

Made = Mapping[str, str] | None


class FacetCounts:
    """Numbers of distinct texts by the origin of their facets, and the tokens they cost."""

    def __init__(self) -> None:
        self.made = 0
        self.cached = 0
        self.tokens = 0
        self.failed: Counter[str] = Counter()
        """Texts without facets, by kind of failure."""
        self.detail = ""
        """The first failure as a sentence."""

    def to_json(self) -> dict[str, Json]:
        counts = {"made": self.made, "cached": self.cached, "failed": self.failed.total()}
        return {**counts, "reasons": dict(sorted(self.failed.items())), "tokens": self.tokens}

    def sentences(self) -> list[str]:
        """Return the same for people."""
        tokens = f", {count(self.tokens, 'token')}" if self.tokens else ""
        sentences = [f"facets: {self.made:,} made, {self.cached:,} from the cache{tokens}"]
        if self.failed:
            reasons = "; ".join(f"{_WORDS.get(reason, reason)} ({number:,})" for reason, number in self.failed.items())
            sentences.append(f"{count(self.failed.total(), 'chunk')} without facets: {reasons}")
            sentences += [f"the first failure: {self.detail}"] if self.detail else []
            sentences.append("the next build asks for these again; all others are in the cache")
        return sentences


class Faceting:
    """Gives chunks their facets, and counts these."""

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
        self._lent = [(segment, KeyRows(segment.texts)) for segment in alike]
        self._say = say
        self._asks = asks
        self._announced = False
        self._seen: set[bytes] = set()
        self.counts = FacetCounts()

    def facets_of(self, chunks: Sequence[Chunk], *, all_read: bool) -> list[Made]:
        """Return the facets of chunks, None for those that have none; `all_read` if no more chunks follow.

        Raises:
            Unavailable: facets are required, and a chunk has none.
        """
        keys = [text_key(chunk.embedded) for chunk in chunks]
        facets = self._stored(list(dict.fromkeys(keys)))
        new = {
            key: chunk for key, chunk in zip(keys, chunks, strict=True) if key not in facets and key not in self._seen
        }
        if new and self._asks:
            if self._maker.address and not self._announced:
                self._announced = True
                number = count(len(new), "chunk") if all_read else f"{len(new):,} chunks, and later more,"
                self._say(f"sending {number} of text to {self._maker.address} for summaries (facets.base_url)")
            facets |= self._made(list(new), list(new.values()))
        self._seen.update(keys)
        # In the order of their names on the card, wherever they come from.
        names = self._maker.card["names"]
        return [made and {name: made[name] for name in names if name in made} for made in map(facets.get, keys)]

    def _stored(self, keys: Sequence[bytes]) -> dict[bytes, Made]:
        """Return the facets that texts have already."""
        import orjson

        wanted = as_keys(keys)
        facets: dict[bytes, Made] = {}
        for key, row in zip(keys, self._cache.find(wanted).tolist(), strict=True):
            if row >= 0:
                ((entry,),) = self._cache.read(np.array([row]))
                facets[key] = facets_of({"facets": orjson.loads(entry.tobytes())})
        for segment, texts in self._lent:
            for key, row in zip(keys, texts.find(wanted).tolist(), strict=True):
                if row >= 0 and key not in facets and "facets" in (chunk := segment.chunks[row]):
                    facets[key] = facets_of(chunk)
        self.counts.cached += len(facets.keys() - self._seen)
        return facets

    def _made(self, keys: Sequence[bytes], chunks: Sequence[Chunk]) -> dict[bytes, Made]:
        """Return the facets that are made now, each stored before the next one."""
        counts, facets = self.counts, dict[bytes, Made]()
        with task("facets", "chunks", len(keys)) as working, closing(self._maker.make(chunks)) as answers:
            for answer in answers:
                working.advance()
                counts.tokens += answer.tokens
                if answer.facets is not None:
                    counts.made += 1
                    key = keys[answer.place]
                    facets[key] = answer.facets
                    entry = np.frombuffer(canonical(dict(answer.facets)), np.uint8)
                    # An answer of a server is written when it comes, because it cost money and time.
                    self._cache.add([key], [(entry,)], stored=bool(self._maker.address))
                    continue
                counts.failed[answer.reason] += 1
                counts.detail = counts.detail or answer.detail
                if self._required:
                    why = answer.detail or _WORDS.get(answer.reason, answer.reason)
                    hint = f"{counts.made:,} made now are kept: run it again, or set facets.policy: optional"
                    raise Unavailable(f"a chunk has no facets, and facets.policy is required: {why}", hint=hint)
        return facets
