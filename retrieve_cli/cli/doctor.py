"""`retrieve doctor`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from retrieve_cli.cli.options import Shared, shared
from retrieve_cli.errors import Exit, printable

if TYPE_CHECKING:
    from rich.console import Console

    from retrieve_cli.operations.doctor.subject import Check

_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@shared("text", "json")
def doctor(*, shared: Shared) -> None:
    """Diagnose problems and print the fix; nothing is changed."""
    from retrieve_cli.operations.doctor.checks import examine
    from retrieve_cli.output.formats import document

    checks = examine(shared.artifacts, shared.config)
    ok = all(check.status != "fail" for check in checks)
    if shared.format == "json":
        print(document({"ok": ok, "checks": [check._asdict() for check in checks]}))
    else:
        _show(checks, shared.console())
    if not ok:
        raise typer.Exit(Exit.ERROR)


def _show(checks: Sequence[Check], console: Console) -> None:
    from rich.text import Text

    width = max(len(check.name) for check in checks)
    for check in checks:
        status = (f"{check.status:4}", _STYLES[check.status])
        text = f"  {check.name:{width}}  {printable(check.message)}"
        console.print(Text.assemble(status, text), soft_wrap=True)
        if check.fix and check.status != "ok":
            console.print(Text(f"      fix: {printable(check.fix)}", style="bold"), soft_wrap=True)
