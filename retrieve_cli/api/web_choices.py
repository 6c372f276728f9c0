"""The table of choices of a search of the web and literature."""

from __future__ import annotations

from retrieve_cli.api.table import JSON, Choice, Schema, Table
from retrieve_cli.search.web_answer import LONGEST_DEADLINE_MS, MOST_RESULTS, MOST_TEXT

MOST_NAMES = 20
_LONGEST_NAME = 100
# Behind `$`, `(?!\n)` is for engines in which that also matches before a line feed at the end.
_DATE = r"^[0-9]{4}(-[0-9]{2}(-[0-9]{2})?)?$(?!\n)"
_SWITCH: Schema = {"type": "boolean"}
NAMES: Schema = {
    "type": ["array", "string"],
    "items": {"type": "string", "maxLength": _LONGEST_NAME},
    "maxItems": MOST_NAMES,
    "maxLength": _LONGEST_NAME * MOST_NAMES,
}
"""Names in a list, or in a text with commas between them."""
_KIND: Schema = {"title": "kind", "type": "string", "enum": ["auto", "web", "literature"]}
_SINCE: Schema = {"type": ["string", "integer"], "pattern": _DATE, "minimum": 1000, "maximum": 2200}
_IN_JSON, _FLAG = frozenset({JSON}), frozenset[str]()

WEB = Table(
    Choice("query", {"type": "string", "maxLength": MOST_TEXT}, "The query, which is sent to the providers.",
           doors=_IN_JSON, aliases=("q", "text")),
    Choice("k", {"type": "integer", "minimum": 1, "maximum": MOST_RESULTS}, "Number of results.", "",
           "-k -n --top-k --limit N", _IN_JSON, aliases=("limit", "top_k", "max_results"), default="20"),
    Choice("kind", _KIND, "Providers that are asked: of the web, of literature, or chosen by the query.", "",
           "--kind auto|web|literature", _IN_JSON, default="auto"),
    Choice("providers", NAMES, "Ask these providers only.", "", "--provider A,B", _IN_JSON, aliases=("provider",),
           default="web.providers"),
    Choice("since", _SINCE, "Drop results from before 2024, 2024-03 or 2024-03-05.", "", "--since DATE", _IN_JSON),
    Choice("categories", NAMES, "Search these categories of arXiv: q-bio, cs.AI.", "", "--category A,B", _IN_JSON,
           aliases=("category",)),
    Choice("first", _SWITCH, "Ask one provider after the other until one has results.", "", "--first", _IN_JSON),
    Choice("deadline_ms", {"type": "number", "minimum": 1, "maximum": LONGEST_DEADLINE_MS},
           "Time for all providers together.", "", "--deadline-ms MS", _IN_JSON),
    Choice("max_age", {"type": ["number", "string"], "minimum": 0, "maxLength": 20},
           "Use stored answers up to this age: 1h, 24h, off.", "", "--max-age AGE", _IN_JSON,
           more="A number is one of seconds; 0: none is used."),
    Choice("explain", _SWITCH, "Explain each score, and report on every provider.", "", "--explain", _FLAG),
)  # fmt: skip
