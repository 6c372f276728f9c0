"""Records read by a chat model, in batches that fit its context: the best of each batch, then the best of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from retrieve_cli.errors import ModelFailed
from retrieve_cli.models.remote import prompts
from retrieve_cli.models.remote.embeddings import PieceTokenizer

if TYPE_CHECKING:
    from retrieve_cli.http.limits import Clock
    from retrieve_cli.models.remote.chat import ListwiseSelector

_ANSWER = 2048
"""The most tokens of an answer."""
_MARKS = 128
"""Tokens of the marks around request and candidates, and of what a server puts around messages."""
_OF_A_NUMBER = 6
"""Tokens of a number in an answer, the separator between two numbers included."""


def answer_tokens(context: int) -> int:
    """Return how many tokens of a context are for the answer."""
    return min(_ANSWER, context // 8)


class CatalogReader:
    """Has a chat model choose among records by a line on each.

    A batch, the request and two answers (an unusable one is sent back) fit the model's context by an estimate on the
    safe side. Of several batches each gives its best, at most half of it, and one more round chooses among those.
    """

    def __init__(
        self,
        selector: ListwiseSelector,
        text_of: Callable[[int], str],
        *,
        context_tokens: int,
        concurrency: int,
        left: Callable[[], float | None] = lambda: None,
        hint: str = "",
    ) -> None:
        """`text_of` returns the line that the model reads for a record; `left` the remaining seconds, None for the
        server's timeout; `hint` is for a model that gives no usable answer."""
        self._selector = selector
        self._text_of = text_of
        self._concurrency = concurrency
        self._left = left
        self._hint = hint
        self._tokenizer = PieceTokenizer()
        self._answer = answer_tokens(context_tokens)
        fixed = self._tokenizer.count(prompts.FIND) + self._tokenizer.count(prompts.repair("")) + _MARKS
        self._room = context_tokens - 2 * self._answer - fixed
        """Tokens for the request and the records."""

    def choose(self, query: str, rows: Sequence[int], *, most: int) -> list[int]:
        """Return at most `most` of some records, the best first.

        Raises:
            Unavailable: the server is not there.
            ModelFailed: it gives an unusable answer twice.
        """
        clock = self._selector.clock(self._left())
        asked = self._fitted(query, self._room // 4)
        room = self._room - self._tokenizer.count(prompts.line(0, asked)) - 2  # escaped, and so longer
        most = min(most, (self._answer - 2 * _OF_A_NUMBER) // _OF_A_NUMBER)
        while rows:
            batches = [*self._batches(rows, room)]
            if len(batches) == 1:
                return self._best(asked, batches[0], most, clock)
            lists = self._best_of_each(asked, batches, most, clock)
            chosen = [row for rank in zip_longest(*lists) for row in rank if row is not None]  # the first of each first
            if len(chosen) >= len(rows):  # of batches of one, each chosen
                return chosen[:most]
            rows = chosen
        return []

    def _batches(self, rows: Sequence[int], room: int) -> Iterator[list[tuple[int, str]]]:
        """Records and their lines, as many at a time as the context has room for; two at least."""
        batch: list[tuple[int, str]] = []
        spent = 0
        for row in rows:
            text = self._fitted(self._text_of(row), room // 2 - 2 * _MARKS)
            tokens = self._tokenizer.count(prompts.line(len(rows), text)) + 1
            if batch and spent + tokens > room:
                yield batch
                batch, spent = [], 0
            batch.append((row, text))
            spent += tokens
        if batch:
            yield batch

    def _best_of_each(
        self, query: str, batches: Sequence[list[tuple[int, str]]], most: int, clock: Clock
    ) -> list[list[int]]:
        """The best of each batch, at most half of it; several are asked about at once."""
        from concurrent.futures import ThreadPoolExecutor

        def best(batch: list[tuple[int, str]]) -> list[int]:
            return self._best(query, batch, min(most, max(1, len(batch) // 2)), clock)

        with ThreadPoolExecutor(min(self._concurrency, len(batches))) as threads:
            begun = [threads.submit(best, batch) for batch in batches]
            try:
                return [each.result() for each in begun]
            finally:
                for each in begun:  # after a failure nothing more is asked
                    each.cancel()

    def _best(self, query: str, batch: Sequence[tuple[int, str]], most: int, clock: Clock) -> list[int]:
        selection = self._selector.find(query, [text for _, text in batch], count=most, clock=clock)
        if selection.order is None:
            raise ModelFailed(str(selection.note), hint=self._hint)
        return [batch[place][0] for place in selection.order]

    def _fitted(self, text: str, tokens: int) -> str:
        """The beginning of a text that has at most so many tokens as the model is shown it."""
        while self._tokenizer.count(shown := prompts.line(0, text)) > tokens and text:
            text = text[: min(len(text) * tokens // (self._tokenizer.count(shown) + 1), len(text) - 1)]
        return text
