"""`retrieve doctor`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from retrieve_cli.cli.options import Shared, option, shared
from retrieve_cli.errors import Exit, printable
from retrieve_cli.frozen import asdict

if TYPE_CHECKING:
    from rich.console import Console

    from retrieve_cli.contracts import Json
    from retrieve_cli.operations.doctor.advise import Advice
    from retrieve_cli.operations.doctor.subject import Check

_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@shared("text", "json")
def doctor(
    *,
    advise: Annotated[
        bool, option("--advise", "Measure the encoders that this CPU can run, and recommend one.")
    ] = False,
    repair: Annotated[
        bool, option("--repair", "Set damaged lines of the log of added documents aside, and keep the others.")
    ] = False,
    shared: Shared,
) -> None:
    """Diagnose problems and print the fix; nothing is changed without --repair."""
    from retrieve_cli.operations.doctor.examine import configured, examine
    from retrieve_cli.output.formats import document

    repaired = _repair(shared) if repair else None
    checks = examine(shared.artifacts, shared.config)
    ok = all(check.status != "fail" for check in checks)
    as_json = shared.format == "json"
    if not as_json:
        _show(checks, shared.console())
    advice = None
    if advise:
        from retrieve_cli.operations.doctor.advise import advise as measure

        advice = measure(configured(shared.artifacts, shared.config)[0], say=shared.talk.say)
    if as_json:
        more = {} if advice is None else {"advice": asdict(advice)}
        more |= {} if repaired is None else {"repaired": repaired}
        print(document({"ok": ok, "checks": [asdict(check) for check in checks], **more}))
    elif advice is not None:
        _show_advice(advice, shared.console())
    if not ok:
        raise typer.Exit(Exit.ERROR)


def _repair(shared: Shared) -> dict[str, Json]:
    """Set damaged lines of the log of added documents aside, in a file beside it; return them with their reasons."""
    from retrieve_cli.storage.inbox import inbox_of

    log = inbox_of(shared.store.path)
    found = log.repair()
    for damage in found.damaged if found else ():
        shared.talk.say(f"line {damage.line}: {damage.why}")
    if found:
        shared.talk.say(f"kept {found.kept} documents; the damaged lines are in {found.aside}")
    lines = [{"line": damage.line, "reason": damage.why} for damage in found.damaged] if found else []
    return {"damaged": lines, "kept": len(log.snapshot()), "aside": str(found.aside) if found else None}


def _show(checks: Sequence[Check], console: Console) -> None:
    from rich.text import Text

    width = max(len(check.name) for check in checks)
    for check in checks:
        text = f"  {check.name:{width}}  {printable(check.message)}"
        console.print(Text.assemble((f"{check.status:4}", _STYLES[check.status]), text), soft_wrap=True)
        if check.fix and check.status != "ok":
            console.print(Text(f"      fix: {printable(check.fix)}", style="bold"), soft_wrap=True)


def _show_advice(advice: Advice, console: Console) -> None:
    from rich.text import Text

    lines = []
    if advice.measured:
        about = f"{advice.texts} texts ({advice.origin}), {advice.queries} queries"
        lines.append(f"\nencoders of this machine's CPU for {printable(advice.model)}, {about}:")
        columns = ("kind", "precision", "texts/CPU s", "speedup", "cosine mean", "min", "overlap@10")
        lines.append("  {:9} {:9} {:>11} {:>8} {:>11} {:>8} {:>10}".format(*columns))
    for way in advice.measured:
        speed = f"{way.texts_per_cpu_s:>11.3g} {way.speedup:>8.3g}"
        near = f"{way.cosine_mean:>11.5f} {way.cosine_min:>8.5f} {way.overlap_at_10:>10.3g}"
        lines.append(f"  {way.kind:9} {way.precision:9} {speed} {near}")
    for missing in advice.absent:
        hint = f" ({missing.hint})" if missing.hint else ""
        lines.append(f"  {missing.kind:9} {missing.precision:9} not measured: {printable(missing.message + hint)}")
    lines.append(f"advice: {printable(advice.message)}")
    if advice.hint:
        lines.append(f"hint: {printable(advice.hint)}")
    if advice.set:
        lines += ["encoder:", *(f"  {key.partition('.')[2]}: {value}" for key, value in advice.set.items())]
    for line in lines:
        console.print(Text(line), soft_wrap=True)
