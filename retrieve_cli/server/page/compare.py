"""Two configurations beside each other, or as one interleaved list to be judged without knowing which is which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from retrieve_cli.api import contents
from retrieve_cli.contracts.terms import figures
from retrieve_cli.errors import RetrieveError, UsageError, quoted
from retrieve_cli.evaluation.votes import Preference, Vote, Votes, team_draft
from retrieve_cli.search.answer import Answer
from retrieve_cli.server.page.address import SIZE, Address
from retrieve_cli.server.page.contents import RERANKING, PageContent, Problem, about, modes
from retrieve_cli.server.page.view import PageHit, chips, shown

if TYPE_CHECKING:
    from retrieve_cli.api.live import LiveIndex
    from retrieve_cli.server.http.callers import Caller

_DEPTH = 10
"""Results of each configuration, and of the list made from both."""
_SIGNIFICANT = 0.05


class Moved(NamedTuple):
    """A result, and its rank in the other configuration."""

    hit: PageHit
    move: str
    """In words: `2 higher`, `only here`; empty at the same rank."""
    kind: str
    """`up`, `down`, `only` or empty; its style."""
    team: str
    """The configuration that picked it for an interleaved list; else empty."""
    grade: int | None


class Side(NamedTuple):
    """One configuration."""

    letter: str
    address: Address
    name: str
    hits: Sequence[Moved]
    error: Problem | None


class ComparisonAddress(NamedTuple):
    """A request for a comparison."""

    a: Address
    b: Address
    blind: bool

    @classmethod
    def of(cls, parameters: Sequence[tuple[str, str]]) -> ComparisonAddress:
        """Return the comparison that the parameters of an address describe."""
        a, b = (Address.of(parameters, prefix=f"{side}.")._replace(page=1) for side in "ab")
        if not any(a.configuration("") or b.configuration("")):
            a = a._replace(choices=Address.of(parameters).choices)
        return cls(a, b, blind=("view", "blind") in parameters)

    def url(self) -> str:
        """Return the address of the comparison."""
        pairs = [("q", self.a.query), *(("f", each) for each in self.a.filters)]
        pairs += [*self.a.configuration("a."), *self.b.configuration("b."), ("view", "blind" if self.blind else "")]
        return f"/compare?{urlencode([(key, value) for key, value in pairs if value])}"


def described(address: Address) -> str:
    """Return a configuration in words; equal ones have equal words."""
    return ", ".join(f"{_NAMES.get(name, name)} {_WORDS.get(text, text)}" for name, text in address.choices) or _PLAIN


_NAMES, _WORDS, _PLAIN = {"mode": "retrievers", "rerank": "reranking"}, {"yes": "on", "no": "off"}, "as configured"


def compare_page(live: LiveIndex, wanted: ComparisonAddress, caller: Caller) -> PageContent:
    """Return the page of a comparison."""
    tenant = caller.tenant
    index, names = live.index, (described(wanted.a), described(wanted.b))
    votes = Votes(live.store.path, tenant)
    values: dict[str, Any] = {
        "address": wanted.a,
        "wanted": wanted,
        "configurations": (("a", "A", wanted.a), ("b", "B", wanted.b)),
        "modes": modes(index),
        "reranking": RERANKING,
        "generations": [kept.manifest.id for kept in reversed(live.store.kept())],
        "chips": chips(wanted.a),
        "about": about(live, index, tenant),
        "judges": caller.may("judge"),
        "here": wanted.url(),
        "verdict": verdict(votes.preference(*names)),
        "names": names,
        "sides": (),
        "mixed": (),
        "count": "",
    }
    if not wanted.a.query:
        return PageContent(values)
    outcomes = [_answered(live, address, tenant) for address in (wanted.a, wanted.b)]
    grades = {name: vote.grade for (query, name), vote in votes.last().items() if query == wanted.a.query}
    answers = [outcome for outcome in outcomes if isinstance(outcome, Answer)]
    sides = _sides(wanted, names, outcomes, grades)
    if wanted.blind and not any(side.error for side in sides):
        known = {each.hit.doc_id: each for side in sides for each in side.hits}
        first, second = ([each.hit.doc_id for each in side.hits] for side in sides)
        picks = team_draft(first, second, most=SIZE, seed=repr((wanted.a.query, *names)))
        mixed = [
            Moved(known[pick.id].hit._replace(rank=rank), "", "", pick.team, known[pick.id].grade)
            for rank, pick in enumerate(picks, 1)
        ]
        return PageContent({**values, "mixed": mixed}, answers=answers)
    moved = sum(bool(each.move) for each in sides[1].hits)
    said = "" if sides[0].error or sides[1].error else f"{figures.count(moved, 'result differs', 'results differ')}"
    return PageContent({**values, "sides": sides, "count": said}, answers=answers)


def _answered(live: LiveIndex, address: Address, tenant: str | None) -> Answer | RetrieveError:
    try:
        return live.answer([address.asked(facets=(), tenant=tenant, limit=_DEPTH)])[0]
    except RetrieveError as error:
        return error


def _sides(
    wanted: ComparisonAddress,
    names: Sequence[str],
    outcomes: Sequence[Answer | RetrieveError],
    grades: Mapping[str, int | None],
) -> list[Side]:
    lists = [shown(each).hits if isinstance(each, Answer) else () for each in outcomes]
    ranks = [{hit.doc_id: hit.rank for hit in hits} for hits in lists]
    sides = []
    for place, outcome in enumerate(outcomes):
        hits = [_moved(hit, ranks[1 - place], grades) for hit in lists[place]]
        error = None if isinstance(outcome, Answer) else Problem(outcome.message, outcome.hint)
        sides.append(Side("AB"[place], (wanted.a, wanted.b)[place], names[place], hits, error))
    return sides


def _moved(hit: PageHit, others: Mapping[str, int], grades: Mapping[str, int | None]) -> Moved:
    grade, rank = grades.get(hit.doc_id), others.get(hit.doc_id)
    if rank is None:
        return Moved(hit, "only here", "only", "", grade)
    if rank > hit.rank:
        return Moved(hit, f"{rank - hit.rank} higher here", "up", "", grade)
    move, kind = (f"{hit.rank - rank} lower here", "down") if rank < hit.rank else ("", "")
    return Moved(hit, move, kind, "", grade)


def verdict(found: Preference) -> str:
    """Return which configuration is preferred so far, and whether that is significant."""
    if found.p is None:
        judged = figures.count(found.tied, "query", "queries")
        return f"No preference yet ({judged} judged)." if found.tied else "Nothing is judged yet."
    queries = figures.count(found.a + found.b + found.tied, "query", "queries")
    won = f"Of {queries}, {found.a} prefer A, {found.b} prefer B and {found.tied} neither"
    meaning = "significant" if found.p < _SIGNIFICANT else "not significant"
    chance = figures.chance(found.p)
    return f"{won}; sign test p {chance if chance.startswith('<') else f'= {chance}'}, {meaning}."


_GRADES: Mapping[str, int | None] = {"1": 1, "0": 0, "": None}


def add_vote(live: LiveIndex, fields: Mapping[str, str], caller: Caller) -> None:
    """Keep the vote of a form, on disk.

    Raises:
        UsageError: the form has no query or record, or another grade.
        NotFound: the record does not exist for the caller.
    """
    query, record_id = fields.get("q", "").strip(), fields.get("id", "")
    grade, team = fields.get("grade", "?"), fields.get("team", "")
    if not query or not record_id or grade not in _GRADES or team not in ("", "a", "b"):
        raise UsageError(f"this is not a judgment: {quoted(dict(fields))}", hint="send q, id and grade: 1, 0 or empty")
    contents.chunks(live.index, record_id, limit=0, tenant=caller.tenant)
    names = {"a": fields.get("a", ""), "b": fields.get("b", "")} if team else {}
    Votes(live.store.path, caller.tenant).add(Vote(query, record_id, _GRADES[grade], caller.name, team, **names))
