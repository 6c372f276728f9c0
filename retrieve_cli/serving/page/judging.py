"""A vote of a form as a line of the log of judgments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from retrieve_cli.api import contents
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.evaluation.votes import Vote, Votes

if TYPE_CHECKING:
    from retrieve_cli.api.live import LiveIndex
    from retrieve_cli.serving.callers import Caller

_GRADES: Mapping[str, int | None] = {"1": 1, "0": 0, "": None}
_TEAMS = ("", "a", "b")


def add_vote(live: LiveIndex, fields: Mapping[str, str], caller: Caller) -> None:
    """Keep the vote of a form, on disk.

    Raises:
        UsageError: the form has no query or record, or another grade.
        NotFound: the record does not exist for the caller.
    """
    query, record_id, grade = fields.get("q", "").strip(), fields.get("id", ""), fields.get("grade", "?")
    team = fields.get("team", "")
    if not query or not record_id or grade not in _GRADES or team not in _TEAMS:
        raise UsageError(f"this is not a judgment: {quoted(dict(fields))}", hint="send q, id and grade: 1, 0 or empty")
    contents.chunks(live.index, record_id, limit=0, tenant=caller.tenant)
    names = {"a": fields.get("a", ""), "b": fields.get("b", "")} if team else {}
    Votes(live.store.path, caller.tenant).add(Vote(query, record_id, _GRADES[grade], caller.name, team, **names))
