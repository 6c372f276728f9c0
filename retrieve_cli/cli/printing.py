"""Answers on stdout in the chosen format, and notes on stderr: cuts, notices, tokens of files, unapplied keys."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from retrieve_cli.cli.options import OutputFlags, Shared
from retrieve_cli.config.settings import Settings, sections
from retrieve_cli.output import formats
from retrieve_cli.search.answer import Answer

if TYPE_CHECKING:
    from retrieve_cli.storage.generation import Generation


def print_answers(answers: Sequence[Answer], shared: Shared, shape: OutputFlags) -> None:
    """Print answers, and the notes on them."""
    prompt = shared.format.startswith("prompt")
    if not shared.talk.json and not shared.talk.quiet:
        _print_cuts(answers, shared, batch=shape.batch, prompt=prompt and not shape.ids)
    if shape.ids:
        sys.stdout.write(formats.as_ids(answers))
    elif shared.format in _PRINT:
        _PRINT[shared.format](answers, shared, shape)
    else:
        written = formats.BATCH_FORMATS if shape.batch else formats.FORMATS
        sys.stdout.write(written[shared.format](answers))


def _print_cuts(answers: Sequence[Answer], shared: Shared, *, batch: bool, prompt: bool) -> None:
    """Report the hits that limits have cut although they ranked higher or were good enough; a prompt states its budget
    itself."""
    if not any(answer.spent or answer.trace or answer.confidence for answer in answers):
        return
    from retrieve_cli.output.text import cut_notes

    for answer in answers:
        where = f"query {answer.query.id}: " if batch else ""
        for note in cut_notes(answer, budget=not prompt):
            shared.talk.say(f"note: {where}{note}")


def _text(answers: Sequence[Answer], shared: Shared, shape: OutputFlags) -> None:
    from retrieve_cli.output import text

    table = None
    if shared.format == "table":
        from retrieve_cli.output.console_tables import print_table

        table = partial(print_table, console=shared.console())
    shown = {"explain": shape.explain, "timing": bool(shape.timing), "batch": shape.batch}
    text.print_answers(answers, shared.page, table=table, **shown)


def _prompt(answers: Sequence[Answer], shared: Shared, shape: OutputFlags) -> None:
    from retrieve_cli.output import prompt

    if shared.format == "prompt-table":
        written = prompt.as_table(answers, batch=shape.batch)
    else:
        written = prompt.as_prompt(answers, batch=shape.batch)
    _write(written.text, written.notes, shared)


def _trec(answers: Sequence[Answer], shared: Shared, shape: OutputFlags) -> None:
    del shape
    _write(formats.as_trec(answers), formats.trec_notes(answers), shared)


def _write(text: str, notes: Sequence[str], shared: Shared) -> None:
    sys.stdout.write(text)
    for note in notes:
        shared.talk.say(f"note: {note}")


_PRINT = {"text": _text, "table": _text, "prompt": _prompt, "prompt-table": _prompt, "trec": _trec}


def print_notices(answers: Sequence[Answer], shared: Shared, *, files: Collection[str]) -> None:
    """Print the notices of the answers, and the tokens read from `files`, the paths on the command line."""
    read = {file.path: file.tokens for answer in answers for file in answer.question.files if file.path in files}
    for path, tokens in read.items():
        if tokens:
            shared.talk.say(f"{path}: {', '.join(map(_fact, tokens))}")
    notices = dict.fromkeys(notice for answer in answers for notice in (*answer.notices, answer.stale) if notice)
    for notice in notices:
        shared.talk.say(f"note: {notice}")


def _fact(token: str) -> str:
    """Return a token of a file as people write it: CT of `format:CT`, chest of `anatomy:CHEST`."""
    kind, _, value = token.partition(":")
    return value.lower() if kind == "anatomy" else value


def note_unapplied(shared: Shared, settings: Settings, generation: Generation, *, given: Mapping[str, str]) -> None:
    """List the configured keys (`given`, and where they are set) that only a sync applies, if there are any."""
    if shared.talk.quiet or shared.talk.json or sections("index").isdisjoint(key.partition(".")[0] for key in given):
        return
    from retrieve_cli.assemble.unapplied import summary, unapplied

    differing = unapplied(settings, generation.manifest, keys=given)
    if differing:
        them = "it" if len(differing) == 1 else "them"
        sync = shlex.join(["retrieve", "sync", *shared.place_flags])
        shared.talk.say(f"note: {summary(differing, given)}: {sync} applies {them}")
