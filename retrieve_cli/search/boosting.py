"""The boosts of a batch: those of the configuration and of the request, and what each of them holds for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from retrieve_cli.config.settings import Settings
from retrieve_cli.errors import UsageError
from retrieve_cli.search.options import SearchOptions
from retrieve_cli.storage.generation import Generation

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask
    from retrieve_cli.stages.boost import Boosted


def boosted(
    generation: Generation,
    settings: Settings,
    options: SearchOptions,
    *,
    visible: Mask | None,
    say: Callable[[str], None],
) -> Sequence[Boosted]:
    """Return what boosts hold for: those of the request, and those of the configuration on something else.

    Raises:
        UsageError: one of the request is not a boost, or names a field that no visible record has.
    """
    if not options.boosts and not settings.boost.factors:
        return ()
    from retrieve_cli.queries.boosts import configured, parse_boost
    from retrieve_cli.search.conditions import satisfying
    from retrieve_cli.stages.boost import Boosted

    given = {str(boost.condition): boost for boost in map(parse_boost, options.boosts)}
    known = {str(boost.condition): boost for boost in configured(settings.boost.factors)}
    found = []
    for written, boost in {**known, **given}.items():
        try:
            passing = satisfying(generation, boost.condition, visible)
        except UsageError as error:
            if written in given:
                raise
            say(f"{error.message}: boost.{boost.condition.field} raises nothing")
            continue
        found.append(Boosted(str(boost), boost.factor, passing.records, passing.chunks))
    return tuple(found)
