"""A budget of chunks and tokens for results: the results that fit, in their order, and the cut ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from retrieve_cli.frozen import replace
from retrieve_cli.search.answer import Result, Skipped, Span, Spent

if TYPE_CHECKING:
    from retrieve_cli.assemble.tokenizers import Counter
    from retrieve_cli.search.context import Narrower


def spend(
    results: Sequence[Result],
    found: Sequence[Result],
    *,
    max_chunks: int | None,
    max_tokens: int | None,
    counter: Callable[[], Counter],
    narrower: Narrower | None = None,
) -> tuple[tuple[Result, ...], Spent]:
    """The results that fit, in their order, and their size; `counter` is called only if tokens are limited.

    `found` are the same results before they had neighbours. A result that does not fit with its context is shown with
    as many of its nearest neighbours as fit, of which `narrower` knows, or as the hit alone. So are, in order, the hits
    that were merged into it and are not among these. A hit that does not fit alone is skipped, and a later one may
    still fit. Last come their bundles, in the same order, each whole or not at all. `Result.text` and each text of a
    bundle are counted separately.
    """
    room = _Room(max_chunks, max_tokens, counter() if max_tokens is not None else None)
    by_id = {result.hit.id: result for result in results}
    seeds = {name: result.hit.id for result in results if result.context for name in result.context.merged}
    shown = _Shown(found, narrower)
    whole: set[str] = set()
    cut: list[tuple[str, str]] = []
    for hit in found:
        name = hit.hit.id
        if (seed := seeds.get(name)) in whole or hit.hit.row in shown.rows:
            continue
        result, why = _fitted(by_id.get(name, hit), room, seed, shown)
        shown.passed.add(name)
        if result is not None:
            shown.add(result)
        if why is None:
            whole.add(name)
        else:
            cut.append((name, why))
    kept = []
    for result in shown.kept:
        needs = result.bundle.needs if result.bundle is not None else ()
        if (lost := room.take_texts([need.text for need in needs], chunks=len(needs))) is not None:
            cut.append((result.hit.id, f"shown without its dependencies: their text {lost}"))
        kept.append(result if lost is None else replace(result, bundle=None))
    return tuple(kept), room.spent(tuple(cut), _skipped(found, kept, cut, room))


def _skipped(
    found: Sequence[Result], kept: Sequence[Result], cut: Sequence[tuple[str, str]], room: _Room
) -> tuple[Skipped, ...]:
    """Return the cut hits of which nothing is shown."""
    ranks = {result.hit.id: rank for rank, result in enumerate(found, 1)}
    last = max((ranks[result.hit.id] for result in kept), default=0)
    shown = {name for result in kept for name in (result.hit.id, *(result.context.merged if result.context else ()))}
    names = dict.fromkeys(name for name, _ in cut if name not in shown)
    sizes = {name: room.size(Span.of(found[ranks[name] - 1].chunk)) for name in names}
    return tuple(Skipped(name, ranks[name], sizes[name], ranks[name] < last) for name in names)


def fitting(results: Sequence[Result], spent: Spent) -> tuple[tuple[Result, ...], Spent]:
    """Return the results for whose texts a budget still has room, and the budget spent with them.

    They are additional to the results that the budget was made for, so none of them counts as cut.
    """
    kept = []
    for result in results:
        tokens = 0 if spent.count is None else spent.count(result.text)
        after = replace(spent, chunks=spent.chunks + 1, tokens=None if spent.tokens is None else spent.tokens + tokens)
        if not after.exceeded:
            kept.append(result)
            spent = after
    return tuple(kept), spent


class _Shown:
    """The results that are shown, and the rows of their chunks."""

    def __init__(self, found: Sequence[Result], narrower: Narrower | None) -> None:
        self._found = found
        self._narrower = narrower
        self.kept: list[Result] = []
        self.rows: set[int] = set()
        self.passed: set[str] = set()
        """Hits that had their turn."""

    def add(self, result: Result) -> None:
        """Show a result too."""
        self.kept.append(result)
        self.rows.update(_rows_of(result))

    def narrowed(self, result: Result, room: _Room) -> Result | None:
        """A hit with the most neighbours that fit, the nearest ones, none of which is shown yet; None if not even one
        fits. Where one is too many on either side, the one behind it goes first, then the one before it."""
        if self._narrower is None:
            return None
        before, after = self._narrower.sides(result, self.rows)
        for first in ("after", "before"):
            low, high, best = 0, before + after, None
            while low < high:
                middle = (low + high + 1) // 2
                sides = _nearest(middle, before, after, first=first)
                candidate = self._narrower.with_neighbours(result, *sides)
                if room.lacks(Span.of(result.chunk) if candidate.context is None else candidate.context) is None:
                    low, best = middle, candidate
                else:
                    high = middle - 1
            if best is not None and best.context is not None:
                rows = _rows_of(best)
                inside = [each.hit.id for each in self._found if each.hit.row in rows and each.hit.id != best.hit.id]
                merged = tuple(name for name in inside if name not in self.passed)
                return replace(best, context=replace(best.context, merged=merged))
        return None


def _rows_of(result: Result) -> range:
    row = result.hit.row
    if (span := result.context) is None:
        return range(row, row + 1)
    begin = row - int(result.chunk["index"])
    return range(begin + span.first, begin + span.last + 1)


def _nearest(count: int, before: int, after: int, *, first: str) -> tuple[int, int]:
    """Return the numbers before and after a hit among its `count` nearest neighbours, of so many on each side."""
    more, less = (count + 1) // 2, count // 2
    ahead, behind = (less, more) if first == "after" else (more, less)
    ahead, behind = min(ahead, before), min(behind, after)
    rest = count - ahead - behind
    return (
        (ahead + min(rest, before - ahead), behind) if behind == after else (ahead, behind + min(rest, after - behind))
    )


def _fitted(result: Result, room: _Room, seed: str | None, shown: _Shown) -> tuple[Result | None, str | None]:
    """A result as far as it fits, and why not all of it; `seed` is the hit whose cut context it was to be part of."""
    alone = Span.of(result.chunk)
    span = alone if result.context is None else result.context
    lost = room.take(span) if seed is None else f"was cut with the context of {seed}"
    if lost is None:
        return result, None
    if (seed is not None or len(span) > 1) and (narrowed := shown.narrowed(result, room)) is not None:
        room.take(alone if narrowed.context is None else narrowed.context)
        return narrowed, f"shown with a narrower context; its whole context {lost}"
    missing = room.take(alone) if seed is not None or len(span) > 1 else lost
    if missing is None:
        return replace(result, context=alone), f"shown without its context, which {lost}"
    return None, f"skipped: it {missing}"


class _Room:
    """The rest of a budget."""

    def __init__(self, max_chunks: int | None, max_tokens: int | None, counter: Counter | None) -> None:
        """Tokens are counted where there is a counter."""
        self._max_chunks = max_chunks
        self._max_tokens = max_tokens
        self._counter = counter
        self._chunks = 0
        self._tokens = 0

    def take(self, span: Span) -> str | None:
        """Take the room of a text; if there is not enough, take none and return how much that would be."""
        return self.take_texts([span.shown], chunks=len(span))

    def take_texts(self, texts: Sequence[str], *, chunks: int) -> str | None:
        """Take the room of several texts of so many chunks; take all or nothing, as `take` does."""
        if self._max_chunks is not None and self._chunks + chunks > self._max_chunks:
            return _of(chunks, "chunk", self._max_chunks - self._chunks, self._max_chunks)
        tokens = 0 if self._counter is None else sum(map(self._counter.tokenizer.count, texts))
        if self._max_tokens is not None and self._tokens + tokens > self._max_tokens:
            return _of(tokens, "token", self._max_tokens - self._tokens, self._max_tokens)
        self._chunks += chunks
        self._tokens += tokens
        return None

    def size(self, span: Span) -> int:
        """Return the tokens of a text, or its chunks where tokens are not limited."""
        return len(span) if self._counter is None else self._counter.tokenizer.count(span.shown)

    def lacks(self, span: Span) -> str | None:
        """Return the same as `take`, without taking room."""
        chunks, tokens = self._chunks, self._tokens
        lost = self.take(span)
        self._chunks, self._tokens = chunks, tokens
        return lost

    def spent(self, cut: tuple[tuple[str, str], ...], skipped: tuple[Skipped, ...]) -> Spent:
        """Return the used part of the budget."""
        counter = self._counter
        return Spent(
            chunks=self._chunks,
            tokens=None if counter is None else self._tokens,
            max_chunks=self._max_chunks,
            max_tokens=self._max_tokens,
            tokenizer=None if counter is None else counter.name,
            cut=cut,
            skipped=skipped,
            count=None if counter is None else counter.tokenizer.count,
        )


def _of(wanted: int, what: str, left: int, limit: int) -> str:
    return f"takes {wanted} {what}{'' if wanted == 1 else 's'} where {left} of {limit} are left"
