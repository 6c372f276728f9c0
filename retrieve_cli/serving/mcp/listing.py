"""The tools `list_fields` and `explain`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from retrieve_cli.api.asked import read_asked
from retrieve_cli.api.field_values import FieldValues, fields_of
from retrieve_cli.api.live import LiveIndex
from retrieve_cli.contracts import Json
from retrieve_cli.errors import printable, shortened
from retrieve_cli.inspect.why import why
from retrieve_cli.output.significant import significant
from retrieve_cli.serving.mcp.arguments import read_arguments, read_budget
from retrieve_cli.serving.mcp.channels import Channels
from retrieve_cli.serving.mcp.counting import counter_of
from retrieve_cli.serving.mcp.cursors import Place, cursor_of, read_cursor
from retrieve_cli.serving.mcp.outcomes import Outcome, compact_json

_FEW, _MANY = 5, 100
"""Values of each field, and of the one that is asked for."""
_EXPLAINED: Sequence[str] = ("id", "verdict", "in_index", "rank", "may_be_found", "filters")
_LONGEST = 60
"""Characters of a value."""


def list_fields(live: LiveIndex, given: Mapping[str, Json], *, tenant: str | None, channels: Channels) -> Outcome:
    """Return the outcome of listing the fields of the caller's records.

    Raises:
        RetrieveError: an argument cannot be understood, or no record of the caller has the field.
    """
    values = read_arguments(given, "list_fields", "field", "max_tokens", "cursor")
    cursor, most = values.pop("cursor", None), read_budget(values.pop("max_tokens", None))
    place, field = read_cursor(cursor, values), values.get("field")
    index = live.at(place.generation)
    count = counter_of(index)
    names, examples = ([field], _MANY) if field else ([], _FEW)
    fields = [_shortened(each) for each in fields_of(index, tenant=tenant, names=names, examples=examples)]
    left = fields[place.offset :]

    def page(shown: Sequence[FieldValues]) -> tuple[dict[str, Json], str]:
        after = place.offset + len(shown)
        following = cursor_of(Place(index.generation, after), values) if after < len(fields) else None
        more = {"next_cursor": following} if following else {}
        structured = {"fields": [each.to_json() for each in shown], "generation": index.generation, **more}
        last = f"\nnext_cursor: {following}" if following else ""
        return structured, "\n".join(map(_line, shown)) + last

    def size(shown: Sequence[FieldValues]) -> int:
        structured, text = page(shown)
        return count(text if channels.content else compact_json(structured))

    shown = left[:1]
    while len(shown) == 1 and size(shown) > most and len(shown[0].values) > 1:
        kept = shown[0].values[: len(shown[0].values) // 2]
        shown = [shown[0]._replace(values=kept, others=shown[0].others + len(shown[0].values) - len(kept))]
    while len(shown) < len(left) and size([*shown, left[len(shown)]]) <= most:
        shown = [*shown, left[len(shown)]]
    structured, text = page(shown)
    return Outcome(structured, text or "no record has a field", f"{len(shown)} fields in structuredContent")


def _shortened(field: FieldValues) -> FieldValues:
    values = [(printable(shortened(value, _LONGEST)), records) for value, records in field.values]
    return field._replace(values=values)


def _line(field: FieldValues) -> str:
    """A field on one line: its records, its values with theirs."""
    numbers = "" if field.least is None else f"{significant(field.least)} to {significant(field.most or 0.0)}; "
    values = ", ".join(f"{value} ({records})" for value, records in field.values)
    others = f" and {field.others} more" if field.others else ""
    records = f"{field.records} record{'' if field.records == 1 else 's'}"
    return f"{printable(field.field)} ({records}): {numbers}{values}{others}"


def explain(live: LiveIndex, given: Mapping[str, Json], *, tenant: str | None, channels: Channels) -> Outcome:
    """Return the outcome of explaining the rank of a record, or of a chunk.

    Raises:
        RetrieveError: an argument cannot be understood, or the search fails.
    """
    del channels
    values = read_arguments(given, "explain", "query", "id", required=("query", "id"))
    asked = read_asked({"query": values["query"]}, where="explain", tenant=tenant)
    view, notices = why(live.index.opened, asked.request, values["id"])
    structured = {
        **{key: view[key] for key in _EXPLAINED if key in view},
        "retrievers": view.get("retrievers", {}),
        "stages": view.get("stages", []),
        **({"notices": list(notices)} if notices else {}),
    }
    return Outcome(structured, "\n".join(_reasons(view)), str(view["verdict"]))


def _reasons(view: Mapping[str, Json]) -> Iterator[str]:
    """The verdict, and the rank in each retriever and stage."""
    yield printable(f"{view['id']}: {view['verdict']}")
    for name, standing in view.get("retrievers", {}).items():
        yield f"{name}: {'no match' if standing['rank'] is None else 'rank ' + str(standing['rank'])}"
    for stage in view.get("stages", []):
        yield f"{stage['stage']}: rank {stage['rank'] or '-'} of {stage['hits']}"
