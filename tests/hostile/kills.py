"""Kills at any moment: what is current answers as before or as after, and the next sync leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from hostile import prepared
from hostile.checks import Finding, command_findings
from hostile.tries import Try

if TYPE_CHECKING:
    from hostile.running import Runner

_SLOWEST_S = 5.0


def kills(dice: Random) -> Try:
    """Return a sync, or a first build, that is killed after a share of the time that it takes."""
    count = dice.choice((20, 60, 200))
    files = {"tools.jsonl": prepared.catalog(count, version=dice.randint(1, 9))}
    if dice.random() < 0.4:
        files["docs/new.md"] = prepared.guide(dice.randint(10, 99)).encode()
    if dice.random() < 0.3:
        command: tuple[str, ...] = ("build", "--artifacts", "other")
    else:
        command = ("sync", "--max-shrink", "1")
    return Try("kills", (command,), files, index="tools", kill=round(dice.random(), 4) or 0.5)


def killed(runner: Runner, attack: Try, folder: Path) -> Iterator[Finding]:
    """Kill the command in `folder`, which has the files of the try; yield what does not hold afterwards."""
    from hostile.running import answer_of, kill_after

    command = attack.commands[0]
    before = [answer_of(runner.command(prepared.CONTROL, folder))]
    whole = runner.place / "whole"
    runner.copy(folder, whole)
    ended = runner.command(command, whole)
    yield from command_findings(ended)
    place = ("--artifacts", "other") if "other" in command else ()
    after = answer_of(runner.command((*prepared.CONTROL, *place), whole))
    code = kill_after(runner.start(command, folder), attack.kill * min(ended.wall, _SLOWEST_S))
    if code not in (0, -9):
        yield Finding("kill", f"ended with {code} instead", command)
    yield from _state(runner, folder, [*([] if place else before), after], place)
    again = runner.command(command, folder)
    yield from command_findings(again)
    if again.code:
        yield Finding("kill", f"the next {command[0]} ends with {again.code}", command, _end(again.err))
    if answer_of(runner.command((*prepared.CONTROL, *place), folder)) != after:
        yield Finding("kill", f"after the next {command[0]} the answer is not what it is without a kill", command)
    artifacts = folder / (place[1] if place else "artifacts")
    left = [*folder.rglob(".scratch*"), *folder.rglob("*.new"), *artifacts.rglob(".*")]
    if left:
        yield Finding("kill", f"left behind: {left[0].name}", command)


def _state(runner: Runner, folder: Path, allowed: list[object], place: tuple[str, ...]) -> Iterator[Finding]:
    """Check that the current state is complete, and one of the allowed ones."""
    from hostile.running import answer_of

    ended = runner.command((*prepared.CONTROL, *place), folder)
    if ended.code == 4 and place:
        return
    if ended.code or answer_of(ended) not in allowed:
        said = f"the answer (code {ended.code}) is neither that before nor that after"
        yield Finding("kill", said, ended.command, _end(ended.err))
    verified = runner.command(("inspect", "verify", *place), folder)
    if verified.code:
        yield Finding("kill", f"inspect verify ends with {verified.code}", verified.command, _end(verified.out))


def _end(stream: bytes) -> str:
    return stream[-500:].decode("utf-8", "replace")
