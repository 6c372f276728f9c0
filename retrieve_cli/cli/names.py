"""Names of the commands, other names for them, and words that lead to one: known without importing any of them."""

from __future__ import annotations

from collections.abc import Mapping

COMMANDS: Mapping[str, str] = {
    "init": "Write a configuration file to start from.",
    "build": "Build an index (also: index).",
    "sync": "Update the index from its sources.",
    "query": "Search the index (also: search).",
    "inspect": "Show the contents of the index, and why a record ranks where it does.",
    "eval": "Measure the quality of answers to judged queries.",
    "doctor": "Diagnose problems and print the fix.",
    "config": "Show the configuration, or the lines that change it.",
    "trust": "Show what a configuration reaches, and agree to it.",
    "web": "Search the web and literature.",
    "models": "List, pull, verify or export models.",
    "engines": "Manage indexes in engines: push, status, snapshot.",
    "snapshot": "Save an index as one file: create, list, verify, restore.",
    "serve": "Serve search, the index and its documents over HTTP, with a page.",
    "keys": "Create, list and revoke keys of the server's callers.",
    "mcp": "Answer MCP clients on standard input and output.",
}
"""Each command and its line in `retrieve --help`; the file beside this one that has its name defines it."""
ALIASES: Mapping[str, str] = {"search": "query", "index": "build"}
"""Other names of commands."""
RELATED_WORDS: Mapping[str, str] = {
    "update": "sync",
    "refresh": "sync",
    "reindex": "sync",
    "find": "query",
    "ask": "query",
    "list": "inspect records",
    "ls": "inspect records",
    "show": "inspect record ID",
    "get": "inspect record ID",
    "status": "inspect status",
    "stats": "inspect status",
    "info": "inspect status",
    "explain": "inspect why QUERY ID",
    "why": "inspect why QUERY ID",
    "history": "inspect history",
    "rollback": "sync --rollback ID",
    "verify": "inspect verify",
    "check": "doctor",
    "evaluate": "eval",
    "benchmark": "eval",
    "tune": "eval --tune",
    "settings": "config show",
    "server": "serve",
    "literature": "web",
    "papers": "web",
    "arxiv": "web --provider arxiv",
    "pubmed": "web --provider pubmed",
    "key": "keys create",
    "token": "keys create",
    "auth": "keys",
    "revoke": "keys revoke ID",
    "download": "models pull",
    "pull": "models pull",
    "backup": "snapshot create",
    "restore": "snapshot restore",
    "version": "--version",
    "help": "--help",
    "completion": "--install-completion",
    "repair": "doctor",
    "inbox": "doctor",
}
"""Words that people try for a command, and the command that does it."""


_ADD = (
    "to add a source, list it under `sources:` in config.yaml, then run: retrieve sync (`retrieve build FILE` indexes\
 that file alone); to add records one by one: index.add() in Python, or POST /documents of `retrieve serve`"
)
_REMOVE = (
    "remove it from its source, then run: retrieve sync; what a program added: index.delete() in Python, or DELETE\
 /documents/ID of `retrieve serve`"
)
_WATCH = "retrieve serve --sync-every 15m; or call `retrieve sync` from cron"
ADVICE: Mapping[str, str] = {
    **dict.fromkeys(("add", "ingest", "insert", "import", "upload", "upsert"), _ADD),
    **dict.fromkeys(("delete", "remove", "rm"), _REMOVE),
    **dict.fromkeys(("watch", "cron", "schedule", "--watch", "--reload", "--every"), _WATCH),
    **dict.fromkeys(("--where", "--tag", "--type", "--metadata"), "--filter FIELD=VALUE"),
    **dict.fromkeys(("--since", "--after"), "--filter 'FIELD>=2024-01-01'"),
    **dict.fromkeys(("--index", "--db"), "--artifacts DIR"),
    **dict.fromkeys(("--num", "--count", "--top"), "-k N"),
    **dict.fromkeys(("--source", "--path"), "name files and folders without a flag: retrieve build tools.jsonl docs/"),
    **dict.fromkeys(("--fields", "--columns", "--select"), "--format json has all fields of a record"),
    "--threshold": "--min-score S",
    "--output": "--format FORMAT, and > FILE",
}
"""Words and flags that people try, and what does it."""
ALIKE = 0.7
"""Share of a name that must be the same for a suggestion: `watch` is not `auth`."""


def command_for(word: str) -> str | None:
    """Return the command that an unknown word may mean: by its meaning, or by the nearest name."""
    from retrieve_cli.untrusted.nearest import nearest

    if (meant := RELATED_WORDS.get(word.casefold())) is not None:
        return meant
    near = nearest(word.casefold(), (*COMMANDS, *ALIASES, *RELATED_WORDS), cutoff=ALIKE)
    return None if near is None else RELATED_WORDS.get(near, near)
