"""Tools of the current index whose definitions the user has not approved, with the difference to decide on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.assemble import approvals
from retrieve_cli.assemble.approvals import is_changed
from retrieve_cli.contracts import Json
from retrieve_cli.contracts.tools import APPROVAL, DEFINITION, SERVER, TOOL, is_tool
from retrieve_cli.errors import IndexCorrupt, IndexMissing
from retrieve_cli.search.access import of_tenant_or_none
from retrieve_cli.search.conditions import allowed_by
from retrieve_cli.storage.generation import open_generation

if TYPE_CHECKING:
    from retrieve_cli.storage.manifest import Manifest
    from retrieve_cli.storage.store import Store


class UnapprovedTool(NamedTuple):
    """A tool that is new on a server, or whose definition changed."""

    key: str
    name: str
    place: str
    """Identity of its server, as approvals name it."""
    definition: Mapping[str, Json]
    before: Mapping[str, Json]
    """The approved definition; empty for a new tool."""

    def lines(self) -> Iterator[str]:
        """Yield the difference to decide on; of a new tool, its whole definition."""
        yield f"{self.key}: {'changed' if self.before else 'new'}"
        yield from approvals.difference(self.name, self.before, self.definition)


def unapproved_tools(store: Store) -> list[UnapprovedTool]:
    """Return the marked tools that the user did not approve since, in the order of the index; none without one."""
    try:
        with open_generation(store) as generation:
            view = of_tenant_or_none(generation, None)
            if APPROVAL not in view.columns.fields:
                return []
            marked = allowed_by(view, [f"{APPROVAL}=*"])
            rows = [] if marked is None else marked.nonzero()[0].tolist()
            records = [generation.records[row] for row in rows]
            tools = [_tool(record, generation.manifest) for record in records if is_tool(record["metadata"])]
            return [tool for tool in tools if not tool.before or is_changed(tool.before, tool.definition)]
    except (IndexMissing, IndexCorrupt):  # no tool of it can be called: the next build marks them again
        return []


def place_of(record: Mapping[str, Json], manifest: Manifest) -> str:
    """Return the identity of the server of a tool, as approvals name it."""
    sources = manifest.built.get("sources", ())
    origins = (source["origin"] for source in sources if isinstance(source, dict))
    origin: Mapping[str, Json] = next((one for one in origins if one.get("name") == record["source"]), {})
    return approvals.server_place(origin, str(record["metadata"].get(SERVER)))


def approve(tools: Sequence[UnapprovedTool]) -> None:
    """Keep the definitions of tools as approved. Raises: RetrieveError: the user's state cannot be written."""
    by_place: dict[str, dict[str, Mapping[str, Json]]] = {}
    for tool in tools:
        by_place.setdefault(tool.place, {})[tool.name] = tool.definition
    for place, definitions in by_place.items():
        approvals.approve(place, definitions)


def _tool(record: Mapping[str, Json], manifest: Manifest) -> UnapprovedTool:
    metadata = record["metadata"]
    name, place = str(metadata[TOOL]), place_of(record, manifest)
    before = (approvals.approved(place) or {}).get(name, {})
    return UnapprovedTool(str(record["id"]), name, place, metadata[DEFINITION], before)
