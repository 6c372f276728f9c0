"""Rows of a table of choices, and everything derived from them: reading an object, JSON Schema, and words for help."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from retrieve_cli.errors import UsageError, quoted

Schema = Mapping[str, Any]
"""Fragment of a JSON Schema (2020-12)."""

JSON, PYTHON, PAGE, LISTED, LOCAL = "json", "python", "page", "listed", "local"
"""Doors: JSON of HTTP, lines and MCP, and links; arguments of Python; addresses of the page; the schema that models
see. A choice that is `LOCAL` is about this machine: a server is not asked for it."""
SINGLE, SEVERAL = frozenset({JSON, PYTHON, PAGE}), frozenset({JSON, PYTHON})

RESULTS, RECORDS, QUERY, RANKING = "Results", "Choose records", "Query", "Ranking"
PASSAGES, CHECK, OUTPUT, SCRIPTS = "Passages", "Explain and check", "Output", "Scripts and index"
ALONE: Mapping[str, Schema] = {
    "like": {"minItems": 1},
    "filters": {"minItems": 1, "minLength": 1, "minProperties": 1},
    "doc_ids": {"minItems": 1},
    "sort": {},
}
"""Choices of which each makes a search without a query, and what then holds for its value."""
PANELS = (RESULTS, RECORDS, QUERY, RANKING, PASSAGES, CHECK, OUTPUT, SCRIPTS)
"""Panels of `retrieve query --help`, in order."""


class Choice(NamedTuple):
    """A row: one thing that a search may choose."""

    name: str
    """Its key in JSON and its argument in Python."""
    schema: Schema
    about: str
    """A sentence that every door prints."""
    panel: str = ""
    flags: str = ""
    """Its flags as help shows them, and what their value is called: `-k --limit N`, `--rerank/--no-rerank`."""
    doors: frozenset[str] = SINGLE
    """Doors other than flags."""
    key: str = ""
    """Key of the configuration that it replaces, which then checks it."""
    aliases: tuple[str, ...] = ()
    """Other spellings of its name, in every door."""
    default: str = ""
    """Value that holds without it, in the words of help."""
    option: str = ""
    """Its name in `SearchOptions`, if that is another one, or if it is not its key that decides on the option."""
    more: str = ""
    """A further sentence for JSON."""

    @property
    def chosen(self) -> str:
        """The name under which it reaches the stages."""
        return self.option or self.name

    @property
    def flag(self) -> str:
        """The flag that errors name."""
        return self.flags.partition(" ")[0].partition("/")[0]

    @property
    def several(self) -> bool:
        """True if it is a list: its flag may be repeated."""
        return self.schema.get("type") == "array" or "items" in self.schema

    @property
    def is_switch(self) -> bool:
        """True if it is on or off."""
        return self.schema.get("type") == "boolean"

    @property
    def is_names(self) -> bool:
        """True if a flag may have several of its values, with commas between them: `A,B`."""
        return "," in self.flags

    @property
    def help(self) -> str:
        """The sentence as help prints it."""
        said = f"{self.about[:-1]}; repeatable." if self.several else self.about
        return f"{said}  [default: {self.default}]" if self.default else said

    @property
    def description(self) -> str:
        """The sentence as a JSON Schema has it."""
        return f"{self.about} {self.more}".rstrip()


class Table:
    """Rows by their names and spellings."""

    def __init__(self, *rows: Choice) -> None:
        self.rows: dict[str, Choice] = {}
        self.of_json: dict[str, Choice] = {}
        self.aliases: dict[str, str] = {}
        self._doors: dict[str, dict[str, Choice]] = {}
        for row in rows:
            self.add(row)

    def add(self, row: Choice) -> None:
        """Add a row, before a door is derived from the table."""
        self.rows[row.name] = row
        for door in row.doors:
            self._doors.setdefault(door, {})[row.name] = row
        if JSON in row.doors:
            self.of_json[row.name] = row
            self.aliases |= dict.fromkeys(row.aliases, row.name)

    def only(self, *names: str) -> Table:
        """Return the table of some rows."""
        return Table(*(self.rows[name] for name in names))

    def in_door(self, door: str) -> Mapping[str, Choice]:
        """Return the rows that a door has, by name."""
        return self._doors.get(door, {})

    @property
    def flagged(self) -> list[Choice]:
        """The rows with a flag, in the order of their panels."""
        rows = (row for row in self.rows.values() if row.flags)
        return sorted(rows, key=lambda row: PANELS.index(row.panel) if row.panel else 0)

    def spelt(
        self,
        item: Mapping[str, Any],
        where: str,
        *,
        among: Collection[str] | None = None,
        preferred: Collection[str] = (),
        what: str = "key",
    ) -> list[tuple[Choice, str, Any]]:
        """Return the keys of an object that have a value, in the order of the table: row, spelling, value.

        Only keys `among` some are known. Of the spellings of a `preferred` one, the first counts. `what` is the word
        for a key; without it, unknown ones are passed over.

        Raises:
            UsageError: a key is unknown, or two spellings of one key have different values.
        """
        known = self.of_json if among is None else among
        given: dict[str, dict[str, Any]] = {}
        for key, value in item.items():
            name = self.aliases.get(key, key)
            if name in known:
                if value is not None:
                    given.setdefault(name, {})[key] = value
            elif what:
                raise self.unknown(key, where, known, what)
        return [(self.rows[name], *_first(self.rows[name], given[name], where, preferred)) for name in self.rows
                if name in given]  # fmt: skip

    def unknown(self, key: str, where: str, known: Collection[str], what: str = "key") -> UsageError:
        """Return the error of an unknown key, with the nearest known one."""
        from retrieve_cli.untrusted.nearest import nearest

        near = nearest(key.casefold(), [*known, *(alias for alias, name in self.aliases.items() if name in known)])
        hint = f"did you mean `{near}`?" if near else f"{what}s: {', '.join(known)}"
        return UsageError(f"{where} has an unknown {what} {quoted(key)}", hint=hint)

    def without_flags(self, hint: str) -> str:
        """Return a hint with the keys of JSON in place of the flags of the command line."""
        if "-" not in hint:
            return hint
        rows = [row for row in self.of_json.values() if row.flags]
        keys = {flag: f"`{row.name}`" for row in rows for flag in re.findall(r"--?[a-z][a-z-]*", row.flags)}
        return re.sub(r"(?<![\w-])--?[a-z][a-z-]*", lambda flag: keys.get(flag[0], flag[0]), hint)

    def schema(self, keys: Sequence[str] | None = None) -> dict[str, Any]:
        """Return the JSON Schema (2020-12) of an object with these keys, by default with all in all their spellings.

        A key with the value null counts as absent; the schema has none, so that a program that follows it sends none.
        """
        chosen = (*self.of_json, *self.aliases) if keys is None else keys
        spellings = [key for key in chosen if self.aliases.get(key, key) == "query"]
        wanted: list[dict[str, Any]] = [{"required": [key]} for key in spellings]
        if "like" in chosen:
            alone = {key: ALONE[name] for key in chosen if (name := self.aliases.get(key, key)) in ALONE}
            wanted += [{"required": [key], "properties": {key: schema}} for key, schema in alone.items()]
        required = wanted[0] if len(wanted) == 1 else {"anyOf": wanted}
        properties = {}
        for key in chosen:
            row = self.of_json[self.aliases.get(key, key)]
            about = row.description if row.name == key else f"Another name of `{row.name}`."
            properties[key] = {**row.schema, "description": about}
        return {"type": "object", "properties": properties, **required, "additionalProperties": False}

    def body(self, keys: Sequence[str]) -> dict[str, Any]:
        """Return the schema of an object with these keys for generators of clients, which make no class of one with
        alternatives (`query` or `like`)."""
        return {key: value for key, value in self.schema(keys).items() if key != "anyOf"}


def _first(row: Choice, values: Mapping[str, Any], where: str, preferred: Collection[str]) -> tuple[str, Any]:
    """The spelling that counts, and its value. Raises: UsageError: others have another value."""
    first, *others = (key for key in (row.name, *row.aliases) if key in values)
    for other in () if row.name in preferred else others:
        one, two = values[first], values[other]
        if one != two or isinstance(one, bool) != isinstance(two, bool):
            message = f"{where} has `{first}` and `{other}`, which mean the same, with different values"
            raise UsageError(message, hint="remove one of them")
    return first, values[first]
