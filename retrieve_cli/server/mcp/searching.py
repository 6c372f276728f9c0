"""The tool `search`: the answer of `retrieve query --json`, as much of it as fits into the tokens of the caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from retrieve_cli.api.asked import Local, read_asked
from retrieve_cli.api.choices import MOST_OFFSET, SEARCH
from retrieve_cli.api.live import LiveIndex
from retrieve_cli.contracts import Json
from retrieve_cli.errors import RetrieveError, UsageError, printable, shortened
from retrieve_cli.output.compact import CompactEntry, Count, as_compact, filled, fitted, own_fields, title_of
from retrieve_cli.output.formats import answer_json
from retrieve_cli.output.near_duplicates import Folded, folded
from retrieve_cli.output.reasons import path_in_words
from retrieve_cli.search.answer import Answer, Result
from retrieve_cli.server.mcp.addresses import CursorPlace, chunk_uri, cursor_of, read_cursor
from retrieve_cli.server.mcp.outcomes import Channels, RecordLink, ToolOutcome, compact_json
from retrieve_cli.server.mcp.tools import counter_of, read_budget, read_names

_NOTICES, _NOTICE = 3, 200
"""Most notices, and most characters of each, in the content; the structured content has all of them."""
_RELATED = 5
"""Most related records that are named."""
_KEPT = ("score", "relevance", "section", "page", "page_end", "page_label", "anchor")
"""Keys of a result in addition to id, title, address and text; keys that are null are omitted."""


_ROOM, _NAMED_ROOM = 200, 1000
"""Most characters of the fields of a result, and of those that were asked for."""


class ResultPage(NamedTuple):
    """One page of an answer, and how it is counted and laid out."""

    answer: Answer
    place: CursorPlace
    limit: int
    given: Mapping[str, Json]
    """The arguments that its cursor goes with."""
    channels: Channels
    names: Sequence[str] = ()
    """The fields of records that were asked for."""
    groups: Sequence[Folded] = ()
    """The results, each with the nearly same ones of other records."""

    def also(self, entries: Sequence[CompactEntry]) -> list[list[str]]:
        """Return, for each of the first entries, the ids of later results that are nearly the same."""
        results = self.answer.results[: self.end(len(entries))]
        groups = self.groups[: len(entries)]
        return [[results[place].id for place in group.others if place < len(results)] for group in groups]

    def end(self, shown: int) -> int:
        """Return the number of results that so many entries cover: all before the first one that is not shown."""
        return self.groups[shown].place if shown < len(self.groups) else len(self.answer.results)

    def fields(self, result: Result) -> Mapping[str, Json]:
        """Return the fields of a result."""
        return own_fields(result.record, self.names, _NAMED_ROOM if self.names else _ROOM)


def search(
    live: LiveIndex, given: Mapping[str, Json], *, tenant: str | None, channels: Channels, local: Local | None = None
) -> ToolOutcome:
    """Return the outcome of a search; `local` as for `read_asked`.

    Raises:
        RetrieveError: an argument cannot be understood, or the search fails.
    """
    values = dict(given)
    cursor, most = values.pop("cursor", None), read_budget(values.pop("max_tokens", None))
    names = read_names(values.pop("fields", None))
    asked = read_asked(values, where="search", tenant=tenant, local=local)
    values = {SEARCH.aliases.get(key, key): value for key, value in values.items() if value is not None}
    place = read_cursor(cursor, values)
    if place.generation is None:
        place = place._replace(offset=int(asked.choices.get("offset") or 0))
    limit = int(asked.choices.get("k") or live.settings.search.k)
    if place.generation is not None:
        asked = asked._replace(generation=place.generation)
    (answer,) = live.answer([asked._replace(choices={**asked.choices, "k": limit, "offset": place.offset})])
    if isinstance(answer, RetrieveError):
        if place.generation is not None and place.generation not in (kept.manifest.id for kept in live.store.kept()):
            raise UsageError("the index has changed since the cursor was made", hint="search again without the cursor")
        raise answer
    place = place._replace(generation=answer.generation)
    page = ResultPage(answer, place, limit, values, channels, names, folded(answer.results))
    return _outcome(page, most, counter_of(live.at(answer.generation)))


def _outcome(page: ResultPage, most: int, count: Count) -> ToolOutcome:
    answer, total, whole = page.answer, page.answer.total_matches, answer_json(page.answer)
    related = answer.related[:_RELATED] if not page.place.offset else ()

    def in_content(entries: Sequence[CompactEntry], *, brief: bool = False) -> str:
        matches = f"{total} match{'' if total == 1 else 'es'}"
        notices = [f"note: {printable(shortened(notice, _NOTICE))}" for notice in answer.notices[:_NOTICES]]
        first = "\n".join([matches if answer.results else f"no results ({matches})", *notices])
        last = _last(page, len(entries), () if brief else related)
        also = {entry.result.id: ids for entry, ids in zip(entries, page.also(entries), strict=True)}

        def fields(result: Result) -> Mapping[str, Json]:
            own = {} if brief and not page.names else page.fields(result)
            return {**own, **({"also": ", ".join(also[result.id])} if also[result.id] else {})}

        return as_compact(entries, first=first, last=last, rank=page.place.offset + 1, brief=brief, fields=fields)

    def in_structure(entries: Sequence[CompactEntry], *, brief: bool = False) -> str:
        return compact_json(_structured(page, entries, whole, () if brief else related, brief=brief))

    longer = page.channels.structured or not page.channels.content  # of two channels with texts, JSON is
    layout: Callable[..., str] = in_structure if longer else in_content
    results = [group.result for group in page.groups]
    heads = in_content if page.channels.content else in_structure
    brief = 2 * count(heads([CompactEntry(result) for result in results])) > most
    entries = fitted(results, partial(layout, brief=brief), partial(filled, answer), most=most, count=count)
    links = [RecordLink(chunk_uri(answer.generation, entry.result.id), title_of(entry.result)) for entry in entries]
    text = in_content(entries, brief=brief) if page.channels.content else ""
    structured = _structured(page, entries, whole, () if brief else related, brief=brief)
    return ToolOutcome(structured, text, f"{len(entries)} results in structuredContent", links, [answer])


def _last(page: ResultPage, shown: int, related: Sequence[Result]) -> str:
    """The last lines of the content: related records, and the cursor of the next page."""
    lines = []
    for each in related:
        words = path_in_words(each.hit.path or "")
        path = f" ({printable(shortened(words))})" if words else ""
        lines.append(f"related: {title_of(each)} [{printable(each.id)}]{path}")
    following = _following(page, shown)
    return "\n".join([*lines, *([f"next_cursor: {following}"] if following else [])])


def _following(page: ResultPage, shown: int) -> str | None:
    """The cursor of the next page; None after the last one."""
    after = page.place.offset + (end := page.end(shown))
    more = end < len(page.answer.results) or (end == page.limit and page.answer.total_matches > after)
    if not more or after > MOST_OFFSET:
        return None
    return cursor_of(CursorPlace(page.answer.generation, after), page.given)


def _structured(
    page: ResultPage,
    entries: Sequence[CompactEntry],
    whole: Mapping[str, Json],
    related: Sequence[Result],
    *,
    brief: bool,
) -> dict[str, Json]:
    """Ids, numbers and notices: a part of the answer's JSON, and the texts if this channel has them; `brief` leaves out
    the numbers of each result."""
    texts = page.channels.structured or page.channels.mirrored
    kept = () if brief else _KEPT
    items = [whole["results"][group.place] for group in page.groups[: len(entries)]]
    results = [
        {
            **_document(entry.result, entry.text if texts else ""),
            **{key: item[key] for key in kept if item[key] is not None},
            **({"fields": fields} if (not brief or page.names) and (fields := page.fields(entry.result)) else {}),
            **({"also": ids} if ids else {}),
        }
        for entry, item, ids in zip(entries, items, page.also(entries), strict=True)
    ]
    following = _following(page, len(entries))
    return {
        "results": results,
        **({"related": [{"id": one.id, "title": title_of(one)} for one in related]} if related else {}),
        **{key: whole[key] for key in ("notices", "strategies_skipped") if whole.get(key)},
        "total_matches": whole["total_matches"],
        "generation": whole["generation"],
        **({"next_cursor": following} if following else {}),
    }


def _document(result: Result, text: str) -> dict[str, Json]:
    return {"id": result.id, "title": title_of(result), "url": result.url, "text": text}
