"""`retrieve trust`."""

from __future__ import annotations

from typing import Annotated

from retrieve_cli.assemble.trusted import record
from retrieve_cli.cli.agreement import can_ask, confirmed, of_configuration, show
from retrieve_cli.cli.options import Shared, option, shared
from retrieve_cli.config.trust import COMMAND
from retrieve_cli.errors import UsageError, printable


@shared("text", "json")
def trust(
    yes: Annotated[bool, option("--yes -y", "Agree without being asked.")] = False,
    revoke: Annotated[bool, option("--revoke", "Take the agreement back.")] = False,
    *,
    shared: Shared,
) -> None:
    """Show what the configuration and the index reach outside of their folder, and agree to it."""
    from retrieve_cli.assemble.trusted import trust_of_artifacts
    from retrieve_cli.output.formats import document

    found = [each for each in (*of_configuration(shared.config), trust_of_artifacts(shared.artifacts)) if each.reaches]
    new = [each for each in found if not each.agreed]
    if shared.format != "json" and not revoke:
        show(new)
    if new and not (yes or revoke) and shared.format != "json":
        if not can_ask(quiet=shared.talk.quiet):
            raise UsageError("there is no terminal to ask on", hint=f"{COMMAND} --yes")
        yes = confirmed()
    for each in found if yes or revoke else ():
        record(each, "forgotten" if revoke else "agreed")
    if shared.format == "json":
        rows = [{"path": each.name, "trusted": each.agreed, "reaches": each.as_json()} for each in found]
        print(document({"trust": rows}))
    elif not found:
        print("nothing reaches out of this folder")
    for each in found if shared.format != "json" else ():
        print(printable(f"{each.place}: {'trusted' if each.agreed else 'not trusted'}"))
