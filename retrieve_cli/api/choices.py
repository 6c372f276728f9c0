"""The table of choices: one row for each choice of a search, and for each flag about how its answer is shown.

Every door is derived from it: flags and `--help`, JSON bodies and lines, links, the arguments and schemas of MCP,
addresses of the page, what `--server URL` sends, OpenAPI, and the arguments of Python. To add a choice, add its row and
let a stage obey it. Nothing heavy is imported here: `retrieve query --help` reads this file.
"""

from __future__ import annotations

from retrieve_cli.api.table import (
    CHECK,
    JSON,
    LISTED,
    LOCAL,
    OUTPUT,
    PAGE,
    PASSAGES,
    QUERY,
    RANKING,
    RECORDS,
    RESULTS,
    SCRIPTS,
    SEVERAL,
    Choice,
    Schema,
    Table,
)  # fmt: skip
from retrieve_cli.config.bounds import LARGEST, LONGEST_TEXT
from retrieve_cli.config.plugins import answering_names, modes

MOST_RESULTS, MOST_OFFSET = 1000, 10_000
"""Results of one answer, and results before the last page that can be asked for."""
HEAD_BYTES = 1_000_000
"""Bytes of the beginning of a file: more are never read of one."""
_HEAD_CHARACTERS = (HEAD_BYTES + 2) // 3 * 4
_MOST_FILES, _MOST_FACETS, _MOST_FILTERS, _MOST_VALUES, _MOST_IDS = 8, 20, 100, 1000, 100_000
_LONGEST_VALUE, _LONGEST_NAME = 10_000, 1000
_ALL = int(LARGEST)


def _text(longest: int) -> Schema:
    return {"type": "string", "maxLength": longest}


def _texts(longest: int, *, most: int) -> Schema:
    return {"type": "array", "items": _text(longest), "maxItems": most}


def _ids(*, most: int) -> Schema:
    return {
        "type": "array",
        "items": {"type": ["string", "number"], "maxLength": _LONGEST_VALUE},
        "maxItems": most,
    }


def _whole(low: int, high: int) -> Schema:
    return {"type": "integer", "minimum": low, "maximum": high}


def _number(low: float, high: float) -> Schema:
    return {"type": "number", "minimum": low, "maximum": high}


def _one_of(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


_SWITCH: Schema = {"type": "boolean"}
_PATH: Schema = {"type": "string", "format": "path"}
_VALUE: Schema = {"type": ["string", "number", "boolean"], "maxLength": _LONGEST_VALUE}
_VALUES: Schema = {"type": "array", "items": _VALUE, "minItems": 1, "maxItems": _MOST_VALUES}
_ONE_OR_SEVERAL: Schema = {**_VALUE, **_VALUES, "type": ["string", "number", "boolean", "array"]}
_COMPARED: Schema = {"type": ["string", "number"], "maxLength": _LONGEST_NAME}
_CONDITION: Schema = {
    **_ONE_OR_SEVERAL,
    "type": ["string", "number", "boolean", "array", "object"],
    "properties": {
        **dict.fromkeys(("eq", "in", "not"), _ONE_OR_SEVERAL),
        **dict.fromkeys(("gt", "gte", "lt", "lte"), _COMPARED),
    },
    "additionalProperties": False,
    "minProperties": 1,
}
_FILTERS: Schema = {
    "type": ["array", "string", "object"],
    "items": _text(_LONGEST_VALUE),
    "maxItems": _MOST_FILTERS,
    "maxLength": _LONGEST_VALUE,
    "additionalProperties": _CONDITION,
    "maxProperties": _MOST_FILTERS,
}
# Behind `$`, `(?!\n)` is for engines in which that also matches before a line feed at the end.
_HEAD: Schema = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": r"^(?!\.{1,2}$)[^/\\\x00-\x1f\x7f]{1,255}$(?!\n)"},
        "head_base64": {
            "type": "string",
            "contentEncoding": "base64",
            "maxLength": _HEAD_CHARACTERS,
            "pattern": r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$(?!\n)",
        },
    },
    "required": ["name", "head_base64"],
    "additionalProperties": False,
}
_SCORE: Schema = {
    "type": ["number", "string"],
    "minimum": -LARGEST,
    "maximum": LARGEST,
    "maxLength": 20,
    "pattern": r"^(?:-?[0-9]{1,6}(?:\.[0-9]{1,9})?|(?:100|[0-9]{1,2}(?:\.[0-9]{1,9})?)%)$(?!\n)",
}
_HEADS: Schema = {"type": "array", "items": _HEAD, "maxItems": _MOST_FILES}
_RETRIEVER: Schema = {"title": "retriever", **_one_of(*answering_names())}
_RETRIEVERS: Schema = {"type": "array", "items": _RETRIEVER, "minItems": 1, "maxItems": 16}
_OBJECT = (
    'As an object: {"license": "MIT", "modality": ["CT", "MRI"], "dims": {"gte": 3}, "group": {"not": "archive"}}.'
)
_IN_JSON, _FOR_MODELS = frozenset({JSON}), SEVERAL | {LISTED}
_HERE, _NOWHERE_ELSE = frozenset({LOCAL}), frozenset[str]()


SEARCH = Table(
    Choice("query", _text(LONGEST_TEXT), "The query; empty to list the records that pass `filters`.",
           doors=_IN_JSON | {LISTED}, aliases=("q", "question", "text")),
    Choice("id", {"type": ["string", "integer"], "maxLength": _LONGEST_NAME}, "Id of the query in the answer.",
           doors=_IN_JSON, aliases=("_id",)),
    # Results
    Choice("limit", _whole(1, MOST_RESULTS), "Number of results.", RESULTS, "-k -n --top-k --limit N", _FOR_MODELS,
           "search.k", aliases=("k", "top_k", "n"), default="10", option="k"),
    Choice("offset", _whole(0, MOST_OFFSET), "Skip the first N results, the results of earlier pages.", RESULTS,
           "--offset N", SEVERAL),
    Choice("sort", {**_text(_LONGEST_NAME), "minLength": 1}, "Order what matches by a field: year, or year:desc.",
           RESULTS, "--sort FIELD[:desc]", _FOR_MODELS, more="Without a query, all records that pass the filters."),
    Choice("min_score", _SCORE, "Drop results that score below this, or below a share of the first: 60%.", RESULTS,
           "--min-score S", key="search.min_score"),
    Choice("min_confidence", _number(0, 1), "Drop results of lower confidence (after eval --calibrate).", RESULTS,
           "--min-confidence P"),
    Choice("dependencies", _SWITCH, "Add the dependencies of each result, in order.", RESULTS,
           "--with-dependencies"),
    Choice("facets", _texts(_LONGEST_NAME, most=_MOST_FACETS), "Count the values that matching records have.", RESULTS,
           "--facet FIELD", SEVERAL),
    Choice("related", _one_of("full", "brief"), "Related records: as full as results, or ids, names and paths.",
           doors=SEVERAL, default="full", more="By default `full`; `brief` over HTTP."),
    # Choose records
    Choice("filters", _FILTERS, "Keep records that match: dims>=3, '!group=x', section=Results.", RECORDS,
           "--filter FIELD=VALUE", _FOR_MODELS, more=_OBJECT, aliases=("filter",)),
    Choice("doc_ids", _ids(most=_MOST_IDS), "Search this record only.", RECORDS, "--doc-id ID",
           SEVERAL, more="A list of ids; an empty one finds nothing."),
    Choice("tenant", _text(_LONGEST_NAME), "Search the records of one tenant only.", RECORDS, "--tenant X", SEVERAL,
           aliases=("tenant_id",)),
    # Query
    Choice("files", _HEADS, "Use its format, modality and dimensions, or title and abstract.", QUERY, "--file PATH",
           SEVERAL | {LOCAL}, more="A file is sent as its name and first bytes."),
    Choice("like", _ids(most=_MOST_FILTERS), "Find records like this one.", QUERY, "--like ID"),
    Choice("not_like", _ids(most=_MOST_FILTERS), "Find records unlike this one.", QUERY,
           "--not-like ID", SEVERAL),
    Choice("also", _texts(LONGEST_TEXT, most=_MOST_VALUES), "Search this query variant too.", QUERY, "--also TEXT",
           SEVERAL),
    Choice("exact_words", _SWITCH, "Do not correct words that no record has.", QUERY,
           "--exact-words/--no-exact-words", key="search.exact_words"),
    # Ranking
    Choice("mode", _one_of(*modes()), "All retrievers, or one.", RANKING, f"--mode {'|'.join(modes())}",
           key="search.mode", default="hybrid"),
    Choice("retrievers", _RETRIEVERS, "Use these retrievers only.", RANKING, "--retrievers A,B", SEVERAL,
           "search.retrievers", aliases=("strategies",)),
    Choice("engine", _one_of("advanced", "naive"), "All stages, or the dense retriever alone.", doors=SEVERAL,
           default="advanced"),
    Choice("rerank", _SWITCH, "Rerank the top results.", RANKING, "--rerank/--no-rerank", default="in hybrid mode"),
    Choice("expand", _SWITCH, "Add records linked to the top results.", RANKING, "--expand/--no-expand",
           key="expansion.enabled", default="in hybrid mode"),
    Choice("route", _SWITCH, "Search only the groups that a first pass picks.", RANKING,
           "--route/--no-route", key="gating.enabled"),
    Choice("boosts", _texts(_LONGEST_VALUE, most=_MOST_FILTERS), "Multiply the score of matching records.", RANKING,
           "--boost FIELD=VALUE:1.2", SEVERAL),
    Choice("deadline_ms", _number(1, LARGEST), "Skip optional steps that do not fit into MS milliseconds.", RANKING,
           "--deadline-ms MS", key="search.deadline_ms"),
    Choice("grade", _number(-1, 1), "Drop results of a lower cosine similarity, unless a reranker scored them.",
           key="search.grade", option="grade"),
    Choice("similarity_top_k", _whole(1, 100_000), "Candidates of the dense retriever.",
           key="search.similarity_top_k", option="similarity_top_k"),
    Choice("rerank_keep", _whole(1, 100_000), "Results that the reranker passes on.", key="rerank.keep",
           option="rerank_keep"),
    Choice("rerank_min_score", _number(-LARGEST, LARGEST), "Drop results that the reranker scores below this.",
           key="rerank.min_score", option="rerank_min_score"),
    Choice("rerank_depth", _whole(1, 10_000), "Results that the reranker scores.", key="rerank.depth",
           option="rerank_depth"),
    Choice("rerank_interpolate", _number(0, 1), "Share of the reranker's score: 1 takes its order alone.",
           key="rerank.interpolate", option="rerank_interpolate"),
    # Passages
    Choice("chunks", _SWITCH, "Rank chunks instead of whole records.", PASSAGES, "--chunks/--no-chunks",
           default="for a prompt"),
    Choice("context", _whole(0, 1000), "Include N neighbouring chunks.", PASSAGES, "--context N", key="context.window"),
    Choice("max_chunks", _whole(1, _ALL), "Limit an answer to this many chunks.", key="budget.max_chunks"),
    Choice("max_tokens", _whole(1, _ALL), "Limit an answer to N tokens of text.", PASSAGES, "--max-tokens N",
           key="budget.max_tokens"),
    # Explain and check
    Choice("explain", _SWITCH, "Explain each score.", CHECK, "--explain", SEVERAL),
    Choice("timing", _SWITCH, "Show the time of each step; --no-timing: none in JSON either.", CHECK,
           "--timing/--no-timing", _NOWHERE_ELSE),
    Choice("picture", _PATH, "Draw the page of the first result, its passage marked, as .png.", CHECK,
           "--picture FILE", _HERE),
    Choice("strict_fresh", _SWITCH, "Exit with 10 if the source of a result has changed.", CHECK, "--strict-fresh",
           _HERE),
    Choice("save_run", _SWITCH, "Save the run in runs/, without the texts of its results.", CHECK, "--save-run", _HERE),
    # Output
    Choice("ids", _SWITCH, "Print ids only, one per line.", OUTPUT, "--list -l", _HERE),
    # Scripts and index
    Choice("stream", _SWITCH, "Answer each line of stdin as it arrives, until stdin ends.", SCRIPTS, "--stream",
           _NOWHERE_ELSE),
    Choice("exit_status", _SWITCH, "Exit with 3 if there are no results.", SCRIPTS, "--exit-status", _NOWHERE_ELSE),
    Choice("server", _text(_LONGEST_NAME), "Ask this `retrieve serve` instead of an index here.", SCRIPTS,
           "--server URL", _NOWHERE_ELSE, "query.server"),
    Choice("docs_dir", _PATH, "Search this folder without an index.", SCRIPTS, "--docs-dir DIR", _HERE),
    # In JSON alone
    Choice("generation", _text(100), "Generation that answers, while it is kept.", doors=_IN_JSON | {PAGE}),
    Choice("at_least", _whole(0, 2**53), "Sequence of a document that the answer must include.", doors=_IN_JSON),
)  # fmt: skip
"""The choices of a search of the index."""
