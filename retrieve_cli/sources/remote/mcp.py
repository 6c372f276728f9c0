"""Servers of tools as a source: each fetch asks them for their tools, and between fetches the last ones are the source.

A server that fails keeps its last tools, marked with the time of its first failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain, count, islice
from pathlib import Path

import orjson

from retrieve_cli.contracts import Fetched, Json
from retrieve_cli.contracts.terms.figures import count as counted
from retrieve_cli.contracts.tools import APPROVAL, DEFINITION, SERVER, STALE, TOOL, ToolServer
from retrieve_cli.errors import RetrieveError, SourceFailed, UsageError, printable, shortened
from retrieve_cli.sources.catalogs.tools import tool_item
from retrieve_cli.sources.remote.client_files import ConfiguredServers
from retrieve_cli.sources.remote.tool_servers import ToolListing, listings
from retrieve_cli.sources.remote.transfer import publish
from retrieve_cli.untrusted import files

Items = list[dict[str, Json]]
"""Tools as objects of a catalog."""
Approvals = Callable[[str, Mapping[str, Json]], Mapping[str, str]]
_LONGEST_NAME = 80


class ToolFetchers:
    """The fetchers of one run: all servers are asked at the same time, and no two have the same name."""

    def __init__(self) -> None:
        self.names: dict[str, Path] = {}
        """The file of each server."""
        self.servers: dict[Path, list[ToolServer]] = {}
        self._answers: dict[Path, list[ToolListing | RetrieveError]] = {}

    def answers(self, target: Path) -> list[ToolListing | RetrieveError]:
        """Return what the servers of a file list now."""
        if target not in self._answers:
            answers = iter(listings([server for servers in self.servers.values() for server in servers]))
            self._answers = {file: list(islice(answers, len(servers))) for file, servers in self.servers.items()}
        return self._answers.pop(target)


class ToolFetcher:
    """Fetcher of the tools of the servers of one source."""

    def __init__(self, configured: ConfiguredServers, target: Path, run: ToolFetchers, approvals: Approvals) -> None:
        """`approvals` returns the marks of tools that the user has not approved, given their server and definitions."""
        self._run, self._target, self._approvals = run, target, approvals
        self._servers = [server for server in configured.servers if self._is_free(server.name)]
        run.servers[target] = self._servers
        taken = {server.name for server in configured.servers} - {server.name for server in self._servers}
        self._failures: list[str] = []
        self._notes = [f"skipped the server {shortened(name)}, which is switched off" for name in configured.disabled]
        self._notes += [f"skipped the server {shortened(name)}: another source has one of this name" for name in taken]

    def fetch(self, target: Path) -> Fetched:
        """Update `target`. Raises: SourceFailed: no server has ever answered."""
        self._failures, last, found = [], _last(target), dict[str, Items]()
        answers = self._run.answers(target)
        for server, answer in zip(self._servers, answers, strict=True):
            if isinstance(answer, ToolListing):
                name = server.name or self._new_name(answer.name)
                found[name] = list(self._items(server, name, answer))
            else:
                name = server.name or next(filter(self._is_free, last), "")
                found[name] = self._stale(name, answer, last.get(name, []))
        if answers and not any(isinstance(answer, ToolListing) or last for answer in answers):
            raise SourceFailed("; ".join(self._failures), hint="fix that, and run this again")
        notes = list(self._notes)
        for name, items in found.items():
            definitions = {item[TOOL]: item[DEFINITION] for item in items}
            marks = self._approvals(name, definitions) if items else {}
            found[name] = [item | ({APPROVAL: marks[item[TOOL]]} if item[TOOL] in marks else {}) for item in items]
            if marks:
                number = counted(len(marks), "tool")
                notes.append(f"{shortened(name)}: {number} new or changed since you agreed: retrieve trust")
        publish(target, (orjson.dumps(item) + b"\n" for name in sorted(found) for item in found[name]))
        return Fetched(self._failures, notes)

    def _items(self, server: ToolServer, name: str, listing: ToolListing) -> Iterator[dict[str, Json]]:
        for definition in listing.tools:
            tool = str(definition.get("name"))
            if (server.only and tool not in server.only) or tool in server.without:
                continue
            try:
                item = tool_item(definition, server=name, about=listing.about)
                orjson.dumps(item)
                yield item
            except (UsageError, TypeError) as error:  # a number beyond 64 bits
                self._failures.append(f"{shortened(name)}: skipped the tool {shortened(tool)}: {error}")

    def _stale(self, name: str, error: RetrieveError, last: Items) -> Items:
        """Return the last tools of a server that failed, with the time since when it does."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        items = [{STALE: now, **item} for item in last]
        since = f"since {items[0][STALE]}; its last {counted(len(items), 'tool')} stay" if items else "yet"
        hint = f" ({error.hint})" if error.hint else ""
        self._failures.append(
            printable(f"{shortened(name) or 'the server'} has not answered {since}: {error.message}{hint}")
        )
        for item in items:
            item.pop(APPROVAL, None)
        return items

    def _new_name(self, name: str) -> str:
        """Return the name of a server that introduced itself; a number makes it unique."""
        name = shortened(printable(name).replace("/", "-"), _LONGEST_NAME) or self._target.stem
        names = chain([name], (f"{name}-{number}" for number in count(2)))
        return next(each for each in names if self._is_free(each))

    def _is_free(self, name: str) -> bool:
        return not name or self._run.names.setdefault(name, self._target) == self._target


def _last(target: Path) -> dict[str, Items]:
    """Return the tools of the last fetch by server."""
    found: dict[str, Items] = {}
    try:
        with files.open_regular(target) as file:
            for line in files.lines(file):
                item = orjson.loads(line)
                found.setdefault(item[SERVER], []).append({**item, DEFINITION: item[DEFINITION], TOOL: item[TOOL]})
    except (OSError, ValueError, KeyError, TypeError):
        return found
    return found
