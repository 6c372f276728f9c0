"""`retrieve doctor`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from retrieve_cli.cli.options import Shared, option, shared
from retrieve_cli.errors import Exit, printable

if TYPE_CHECKING:
    from rich.console import Console

    from retrieve_cli.contracts import Json
    from retrieve_cli.operations.doctor.subject import Check

_REPAIR = "Set damaged lines of the log of added documents aside, and keep the others."
_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@shared("text", "json")
def doctor(
    *,
    repair: Annotated[bool, option("--repair", _REPAIR)] = False,
    shared: Shared,
) -> None:
    """Diagnose problems and print the fix; nothing is changed without --repair."""
    from retrieve_cli.operations.doctor.checks import examine
    from retrieve_cli.output.formats import document

    repaired = _repair(shared) if repair else None
    checks = examine(shared.artifacts, shared.config)
    ok = all(check.status != "fail" for check in checks)
    if shared.format == "json":
        more = {} if repaired is None else {"repaired": repaired}
        print(document({"ok": ok, "checks": [check._asdict() for check in checks], **more}))
    else:
        _show(checks, shared.console())
    if not ok:
        raise typer.Exit(Exit.ERROR)


def _repair(shared: Shared) -> dict[str, Json]:
    """Set damaged lines of the log of added documents aside; return them with their reasons."""
    from retrieve_cli.storage.inbox import inbox_of

    log = inbox_of(shared.store.path)
    repaired = log.repair()
    if repaired is None:
        return {"damaged": [], "kept": len(log.snapshot()), "aside": None}
    for damage in repaired.damaged:
        shared.talk.say(f"line {damage.line}: {damage.why}")
    shared.talk.say(f"kept {repaired.kept} documents; the damaged lines are in {repaired.aside}")
    lines = [{"line": damage.line, "reason": damage.why} for damage in repaired.damaged]
    return {"damaged": lines, "kept": repaired.kept, "aside": str(repaired.aside)}


def _show(checks: Sequence[Check], console: Console) -> None:
    from rich.text import Text

    width = max(len(check.name) for check in checks)
    for check in checks:
        status = (f"{check.status:4}", _STYLES[check.status])
        text = f"  {check.name:{width}}  {printable(check.message)}"
        console.print(Text.assemble(status, text), soft_wrap=True)
        if check.fix and check.status != "ok":
            console.print(Text(f"      fix: {printable(check.fix)}", style="bold"), soft_wrap=True)
