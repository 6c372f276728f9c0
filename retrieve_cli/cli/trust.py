"""`retrieve trust`."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from shlex import join
from typing import Annotated

from retrieve_cli.assemble.trusted import record
from retrieve_cli.cli.agreement import can_ask, confirmed, of_configuration, of_servers, show, show_tools
from retrieve_cli.cli.options import Shared, argument, option, shared
from retrieve_cli.config.settings import SourceSetting
from retrieve_cli.config.trust import COMMAND, Trust
from retrieve_cli.contracts.terms.figures import count
from retrieve_cli.errors import RetrieveError, UsageError, printable


@shared("text", "json")
def trust(
    files: Annotated[
        list[Path] | None, argument("[FILE]...", "Configurations of clients that name servers of tools (.mcp.json).")
    ] = None,
    yes: Annotated[bool, option("--yes -y", "Agree without being asked.")] = False,
    revoke: Annotated[bool, option("--revoke", "Take the agreement back.")] = False,
    *,
    shared: Shared,
) -> None:
    """Show what the configuration and the index reach outside of their folder, the servers of tools that their sources
    name (or only those that files name), and tools that are new or changed since you agreed; and agree to it."""
    from retrieve_cli.operations.unapproved import approve, unapproved_tools
    from retrieve_cli.output.formats import document

    named = of_servers(SourceSetting("mcp", path=file) for file in files) if files else _of_folder(shared)
    found = [each for each in named if each.reaches]
    new = [each for each in found if not each.agreed]
    # An index that the user did not agree to is not opened: its tools are shown the next time.
    tools = [] if revoke or new else unapproved_tools(shared.store)
    if shared.format != "json" and not revoke:
        show(new)
        show_tools(tools)
    if (new or tools) and not (yes or revoke) and shared.format != "json":
        if not can_ask(quiet=shared.talk.quiet):
            raise UsageError(
                "there is no terminal to ask on", hint=join([*COMMAND.split(), *map(str, files or ()), "--yes"])
            )
        yes = confirmed()
    for each in found if yes or revoke else ():
        record(each, "forgotten" if revoke else "agreed")
    if yes:
        approve(tools)
    if shared.format == "json":
        rows = [{"path": each.name, "trusted": each.agreed, "reaches": each.as_json()} for each in found]
        changes = [{"key": tool.key, "approved": yes, "difference": list(tool.lines())} for tool in tools]
        print(document({"trust": rows, **({"tools": changes} if changes else {})}))
    elif not (found or tools):
        print("nothing reaches out of this folder")
    for each in found if shared.format != "json" else ():
        print(printable(f"{each.place}: {'trusted' if each.agreed else 'not trusted'}"))
    if tools and shared.format != "json":
        number = count(len(tools), "tool")
        print(f"{number}: {'approved; run: retrieve sync' if yes else 'not approved'}")


def _of_folder(shared: Shared) -> list[Trust]:
    """Return the trust of the configuration, of the index, and of the files with servers that these name."""
    from retrieve_cli.assemble.sources import entries_of
    from retrieve_cli.assemble.trusted import trust_of_artifacts
    from retrieve_cli.config.loading import load_with_origins
    from retrieve_cli.storage.store import Store

    entries = list(load_with_origins(shared.config)[0].sources.list)
    with suppress(RetrieveError):
        entries += entries_of(Store(shared.artifacts).open().manifest) if not entries else []
    return [*of_configuration(shared.config), trust_of_artifacts(shared.artifacts), *of_servers(entries)]
