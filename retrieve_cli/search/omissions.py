"""What happens where a step that was asked for cannot run: an error where it is needed, else it is left out and said.

A leg that is the only one is needed, and so is a reranker that the command asks for by name; the configuration says of
splade and rerank whether they are `required` or `optional`. A deadline takes what is optional, in the order of
`sacrifice`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from retrieve_cli.config.settings import Settings
from retrieve_cli.errors import Unavailable


class Omissions:
    """Steps of one batch that are left out, and why."""

    def __init__(self, needed: set[str], say: Callable[[str], None]) -> None:
        self._needed = needed
        self._say = say
        self._errors: dict[str, Unavailable] = {}

    def add(self, step: str, error: Unavailable) -> None:
        """Leaves a step out.

        Raises:
            Unavailable: it is needed.
        """
        if step in self._needed:
            raise error
        self.give_up(step, error)

    def give_up(self, step: str, error: Unavailable) -> None:
        """Leaves a step out, as a deadline does, needed or not."""
        self._errors[step] = error
        what = f"the {step} leg" if step in ("dense", "splade") else step
        self._say(f"{what} is skipped: {error.message} ({error.hint})")

    def __contains__(self, step: str) -> bool:
        return step in self._errors

    @property
    def reasons(self) -> dict[str, str]:
        """By step, why it is left out and what mends it."""
        return {step: f"{error.message}: {error.hint}" for step, error in self._errors.items()}


def needed(settings: Settings, legs: Sequence[str], reranker: str | None, *, asked: bool) -> set[str]:
    """The steps without which there is no answer; `asked` says that the command names reranking."""
    steps = set(legs) if len(legs) == 1 else set()
    if settings.splade.policy == "required":
        steps.add("splade")
    if reranker is not None and (asked or settings.rerank.policy == "required"):
        steps.add(reranker)
    return steps


def sacrifice(settings: Settings, legs: Sequence[str], reranker: str | None) -> list[str]:
    """Steps that a deadline may take, in the order in which they go; what is `required` stays."""
    order = [reranker] if reranker is not None and settings.rerank.policy == "optional" else []
    if len(legs) > 1:
        order += ["splade"] if "splade" in legs and settings.splade.policy == "optional" else []
        order += ["dense"] if "dense" in legs and "bm25" in legs else []
    return order
