"""Sources that have changed since the build: reported (`warn`), or a reason to answer nothing (`fail`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from retrieve_cli.errors import Stale

if TYPE_CHECKING:
    from retrieve_cli.contracts import Request, Watched
    from retrieve_cli.search.answer import Result
    from retrieve_cli.storage.manifest import Manifest

Policy = Literal["warn", "fail", "sync"]
_HINT = "bring the index up to date: retrieve sync"


class Freshness(NamedTuple):
    """The sources of a generation, and the policy for changed ones."""

    policy: Policy
    sources: Sequence[tuple[str, Watched]]
    """By name, in order."""

    @classmethod
    def of(cls, manifest: Manifest, watched: Sequence[tuple[int, Watched]], policy: Policy) -> Freshness:
        """Return the freshness of a generation; `watched` is empty if its manifest does not name its sources."""
        named = zip(manifest.sources, watched, strict=False)
        return cls(policy, [(entry.name, source) for entry, (_, source) in named])

    def expect(self, requests: Sequence[Request]) -> None:
        """Compare the marks of all sources, before anything is searched.

        Raises:
            Stale: one has changed and the policy is `fail`. The message names it for no tenant: it may have none of it.
        """
        if self.policy != "fail":
            return
        if changed := [f"{name}: {said}" for name, source in self.sources if (said := source.stale())]:
            named = f" ({', '.join(changed)})" if _all_see(requests) else ""
            raise Stale(f"the sources have changed since the build{named}", hint=_HINT)

    def notice(self, results: Sequence[Sequence[Result]], requests: Sequence[Request]) -> str | None:
        """Return a sentence on the hits whose sources have changed; if none has, on changes that no hit can show.

        Raises:
            Stale: a hit's source has changed and the policy is `fail`.
        """
        states = [result.freshness for found in results for result in found]
        if changed := len(states) - states.count("fresh"):
            gone = states.count("deleted")
            what = f"{changed} of {len(states)} hits" + (f" ({gone} of them deleted)" if gone else "")
            sentence = f"the sources of {what} have changed since the build"
            if self.policy == "fail":
                raise Stale(sentence, hint=_HINT)
            return f"{sentence}: retrieve sync"
        if self.policy == "fail" or not _all_see(requests):
            return None
        grown = [f"{name}: {said}" for name, source in self.sources if (said := source.grown())]
        return f"{', '.join(grown)} since the build: retrieve sync" if grown else None


def _all_see(requests: Sequence[Request]) -> bool:
    """True if every record is visible to each of the requests."""
    return all(request.tenant is None for request in requests)
