"""`retrieve inbox`: the log of documents that were added one at a time."""

from __future__ import annotations

from retrieve_cli.cli.options import Shared, group, shared
from retrieve_cli.errors import printable

app = group("Repair the log of the documents that were added one at a time.")


@app.command()
@shared("text", "json")
def repair(*, shared: Shared) -> None:
    """Set damaged lines of the log aside, in a file beside it, and keep the documents of all others."""
    from retrieve_cli.output.formats import document
    from retrieve_cli.storage.inbox import inbox_of

    log = inbox_of(shared.store.path)
    found = log.repair()
    if shared.format == "json":
        lines = [{"line": damage.line, "reason": damage.why} for damage in found.damaged] if found else []
        print(document({"damaged": lines, "kept": len(log.snapshot()), "aside": str(found.aside) if found else None}))
    elif found is None:
        print(printable(f"{log.path} is sound"))
    else:
        for damage in found.damaged:
            print(printable(f"line {damage.line}: {damage.why}"))
        print(printable(f"kept {found.kept} documents; the damaged lines are in {found.aside}"))
