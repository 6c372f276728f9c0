"""An answer as the page shows it: values in words, nothing of it HTML. Facets are checkboxes, conditions chips."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from retrieve_cli.contracts import Hit, Json
from retrieve_cli.contracts.tools import tool_marks
from retrieve_cli.output import explanation
from retrieve_cli.output.formats import answer_json
from retrieve_cli.output.places import linked, pages, span_of
from retrieve_cli.output.plain_text import percent, significant, title as plain_title
from retrieve_cli.output.reasons import GRAPH, path_in_words, reasons
from retrieve_cli.output.snippet import snippet
from retrieve_cli.retrieval.queries.filters import Condition
from retrieve_cli.search.answer import Answer, Result
from retrieve_cli.search.pictures import drawable
from retrieve_cli.search.places import place_of
from retrieve_cli.server.page.address import Address, record_url
from retrieve_cli.server.page.rendering import SnippetPart, WebLink, cut, leaves, link, parts
from retrieve_cli.storage.records.record_values import known_as
from retrieve_cli.storage.records.suggestions import offered
from retrieve_cli.storage.records.view import RecordView

if TYPE_CHECKING:
    from retrieve_cli.storage.generation import Generation

_DIGITS = 4
SNIPPET = 240
"""Characters of a snippet."""
_MODALITIES = 3
_FRESHNESS = {"changed": "changed since the build", "deleted": "deleted since the build"}


class Badge(NamedTuple):
    """A word on a result."""

    text: str
    kind: str
    """`licence`, `modality` or `stale`; its style."""


class Why(NamedTuple):
    """The part of one retriever in a score."""

    source: str
    rank: str
    raw: str
    weight: str
    part: str


class PageHit(NamedTuple):
    """A result as the page shows it."""

    rank: int
    id: str
    """Id of its chunk."""
    doc_id: str
    title: str
    href: str
    link: WebLink | None
    section: str
    snippet: Sequence[SnippetPart]
    place: str
    badges: Sequence[Badge]
    summary: str
    """Reasons in a few words."""
    why: Sequence[Why]
    score: str
    notes: Sequence[str]
    """Further reasons: the reranker, a path, a confidence."""
    citation: str
    picture: str
    """Address of a picture of the record; empty without one."""
    source: str
    """Name of its source in the index."""


class PageAnswer(NamedTuple):
    """An answer as the page shows it."""

    hits: Sequence[PageHit]
    related: Sequence[PageHit]
    total: int
    notices: Sequence[str]
    explanation: Sequence[tuple[str, str]]
    generation: str


class Surroundings(NamedTuple):
    """Sources of records by their rows, and servers of pictures."""

    ends: Sequence[int] = ()
    """Row behind the last record of each source."""
    sources: Sequence[str] = ("",)
    hosts: Sequence[str] = ()
    """Servers of which the page may load pictures."""

    @classmethod
    def of(cls, generation: Generation, hosts: Sequence[str]) -> Surroundings:
        """Return the surroundings of hits of a generation."""
        listed = generation.manifest.sources
        ends = [*accumulate(source.records for source in listed)]
        return cls(ends, [*(source.name for source in listed), ""], hosts)


def shown(answer: Answer, *, offset: int = 0, around: Surroundings = Surroundings()) -> PageAnswer:
    """Return an answer as the page shows it; `offset` results are on the pages before."""
    value = answer_json(answer)
    notices = [*value.get("notices", ()), *([answer.stale] if answer.stale else [])]
    notices += [f"{name} was skipped: {reason}" for name, reason in value["strategies_skipped"].items()]
    return PageAnswer(
        hits=_hits(answer, answer.results, value["results"], offset, around),
        related=_hits(answer, answer.related, value["related"], 0, around),
        total=value["total_matches"],
        notices=notices,
        explanation=explanation.of_answer(answer),
        generation=value["generation"],
    )


def _hits(
    answer: Answer, results: Sequence[Result], values: Sequence[Mapping[str, Json]], offset: int, around: Surroundings
) -> list[PageHit]:
    pairs = zip(results, values, strict=True)
    return [_hit(answer, result, value, around, rank=offset + place) for place, (result, value) in enumerate(pairs, 1)]


def _hit(answer: Answer, result: Result, value: Mapping[str, Json], around: Surroundings, *, rank: int) -> PageHit:
    text = snippet(answer, result, room=SNIPPET).cut(SNIPPET)
    name, place, index = cut(plain_title(str(value["name"]))), source_of(result.chunk), int(result.chunk["index"])
    return PageHit(
        rank=rank,
        id=value["id"],
        doc_id=value["doc_id"],
        title=name or cut(value["doc_id"]),
        href=record_url(value["doc_id"]) + (f"?from={index}#c{index}" if index else ""),
        link=link(linked(value["url"] or "", span_of(result))),
        section=cut(plain_title(value["section"] or "")),
        snippet=parts(text.text, text.marks),
        place=place,
        badges=badges_of(value),
        summary=" · ".join(reason.text for reason in reasons(result, rank=rank)),
        why=list(_why(result.hit)),
        score=significant(value["score"], _DIGITS),
        notes=_notes(result, value, rank),
        citation=f"{name} ({value['id']}), {place}; generation {answer.generation}",
        picture=picture_of(result.record, result.chunk, answer.generation, around.hosts),
        source=around.sources[bisect_right(around.ends, result.hit.record)],
    )


_PICTURES = frozenset(("image", "picture", "thumbnail", "logo", "icon", "screenshot", "photo"))
"""Names of fields with the address of a picture; `image_url` and `imageUrl` are the same."""


def picture_of(record: Mapping[str, Json], chunk: Mapping[str, Json], generation: str, hosts: Sequence[str]) -> str:
    """Return the address of a picture of a record: its page, if it can be drawn, or one on a server that the page may
    load pictures of."""
    if drawn := page_pictures(record, chunk, generation):
        return drawn[0][1]
    for name, values in leaves({**record.get("supporting_data", {}), **record["metadata"]}) if hosts else ():
        if name.rpartition(".")[2].lower().removesuffix("url").rstrip("_") in _PICTURES:
            for found in filter(None, map(link, values)):
                if found.url.startswith("https://") and urlsplit(found.url).netloc in hosts:
                    return found.url
    return ""


def page_pictures(record: Mapping[str, Json], row: Mapping[str, Json], generation: str) -> list[tuple[int, str]]:
    """Return the pages of a chunk that can be drawn, and the addresses of their pictures."""
    here = f"/pictures/{quote(record['id'], safe='', errors='replace')}"
    values = {"chunk": row["index"], "generation": generation}
    return [(page, f"{here}?{urlencode({'page': page, **values})}") for page in drawable(record, row)]


def source_of(chunk: Mapping[str, Json]) -> str:
    """Return the source of a passage with its pages, anchor or lines, in words."""
    return ", ".join(filter(None, (cut(chunk["source"]), within(chunk))))


def within(chunk: Mapping[str, Json]) -> str:
    """Return the pages, the anchor or the lines of a passage, in words."""
    if (place := place_of(chunk)) is not None:
        return pages(place) or cut(f"#{place.anchor}" if place.anchor else "")
    start, end = chunk["start_line"], chunk["end_line"]
    return f"line {start}" if start == end else f"lines {start}–{end}"


def badges_of(value: Mapping[str, Json]) -> list[Badge]:
    """Return the badges of a result, or of a record, of which the freshness is not known."""
    modalities = value.get("supporting_data", {}).get("modalities") or []
    found = [Badge(cut(value["license"], 40), "licence")] if value["license"] else []
    found += [Badge(cut(name, 40), "modality") for name in modalities[:_MODALITIES]]
    if (more := len(modalities) - _MODALITIES) > 0:
        found.append(Badge(f"+{more}", "modality"))
    marks = (_FRESHNESS.get(value.get("freshness", "")), tool_marks(value.get("metadata", {})))
    return [*found, *(Badge(mark, "stale") for mark in marks if mark)]


def _why(hit: Hit) -> Iterator[Why]:
    """Yield the rows whose parts add up to the score; a hit scored outside its list has no rank."""
    for each in hit.evidence:
        rank = "–" if each.rank is None else str(each.rank)
        part = significant(each.part, _DIGITS) if each in hit.counted else "–"
        yield Why(each.source, rank, significant(each.score), f"{each.weight:g}", part)
    if (moved := hit.reranked) is not None:
        yield Why(moved.scorer, str(moved.before), significant(moved.score), "–", significant(moved.part, _DIGITS))


def _notes(result: Result, value: Mapping[str, Json], rank: int) -> list[str]:
    found = []
    if moved := value.get("rerank"):
        score = significant(moved["score"])
        found.append(f"Reranked from {moved['rank_before']} to {rank} by {moved['scorer']}, with a score of {score}")
    if path := value.get("path"):
        words = path_in_words(path)
        found.append(f"Path: {path}" if words == path else f"{words[:1].upper()}{words[1:]}: {path}")
    if (confidence := value.get("confidence")) is not None:
        found.append(f"Confidence {percent(confidence)}")
    if GRAPH not in value["source_scores"] and result.hit.topped_up is not None:
        found.append(f"Topped up: {result.hit.topped_up}")
    return found


# --------------------------------------------------------------------------------------------------------------- facets


_OPEN = 6
"""Values of a field that are shown at once; the rest is behind `more`."""
_MOST = 24
_LONGEST = 60
_OPEN_FIELDS = 4
"""Fields that are unfolded from the start."""


class Checkbox(NamedTuple):
    """A value of a field, to be ticked."""

    label: str
    filter: str
    """The condition of the checkbox, in the filter language."""
    matches: int
    ticked: bool


class PageFacet(NamedTuple):
    """A field, and its values among the matches."""

    label: str
    boxes: Sequence[Checkbox]
    more: Sequence[Checkbox]
    unfolded: bool


def fields_of(view: RecordView) -> list[str]:
    """Return the fields that the page offers as facets; values of records that are not visible do not count."""
    return view.generation.once(_fields) if view.rows is None else offered(view.columns)


def _fields(generation: Generation) -> list[str]:
    return offered(RecordView(generation, None).columns)


def facets(counts: Mapping[str, Sequence[Mapping[str, Json]]], address: Address) -> list[PageFacet]:
    """Return the facets of an answer; a ticked value is shown even if nothing matches with it any more."""
    ticked: dict[tuple[str, str], str] = {}  # the original form of what a checkbox can express, by field and value
    for condition, text in address.read():
        plain = condition.operator == "=" and not condition.negated and not condition.globs
        if plain and len(condition.values) == 1:
            ticked[known_as(condition.field), condition.values[0]] = text
    found: list[PageFacet] = []
    for field, values in counts.items():
        boxes = [_box(field, str(value["value"]), int(value["count"]), ticked) for value in values]
        held = {box.filter for box in boxes}
        boxes += [
            Checkbox(cut(value, _LONGEST), written, 0, ticked=True)
            for (named, value), written in ticked.items()
            if named == known_as(field) and str(Condition(field, "=", (value,))) not in held and written not in held
        ]
        boxes.sort(key=lambda box: not box.ticked)
        most = max(_OPEN, sum(box.ticked for box in boxes))
        if boxes:
            unfolded = len(found) < _OPEN_FIELDS or boxes[0].ticked
            found.append(PageFacet(label_of(field), boxes[:most], boxes[most:_MOST], unfolded))
    return found


def _box(field: str, value: str, count: int, ticked: Mapping[tuple[str, str], str]) -> Checkbox:
    """Return the checkbox of a value: a ticked one has the condition in its original form."""
    folded = value.casefold()
    same = (text for (name, held), text in ticked.items() if (name, held.casefold()) == (known_as(field), folded))
    written = next(same, None)
    return Checkbox(cut(value, _LONGEST), written or str(Condition(field, "=", (value,))), count, written is not None)


def chips(address: Address) -> list[tuple[str, str]]:
    """Return the conditions in force and the example that results resemble, each with the address without it."""
    like = address.value("like")
    examples = [(cut(f"like {like}", _LONGEST), address.with_choice("like", "").url())] if like else []
    return examples + [(cut(text, _LONGEST), address.without(text).url()) for text in address.filters]


def label_of(field: str) -> str:
    """Return the name of a field in words: `supportingData.bodySite` is body site."""
    name = field.rpartition(".")[2]
    words = "".join(
        f" {char.lower()}" if char.isupper() and not before.isupper() else " " if char in "_-" else char
        for before, char in zip(f" {name}", name, strict=False)
    )
    text = cut(words.strip() or field, _LONGEST)
    return text[:1].upper() + text[1:]
