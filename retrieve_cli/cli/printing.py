"""Answers in the format that was asked for, on stdout, and on stderr what the format and the limits skipped."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

from retrieve_cli.cli.options import Shape, Shared
from retrieve_cli.errors import unwritable
from retrieve_cli.output import formats
from retrieve_cli.search.answer import Answer


def print_answers(answers: Sequence[Answer], shared: Shared, shape: Shape) -> None:
    """Print answers, and the notes on them.

    Raises:
        RetrieveError: a file that is asked for cannot be written.
    """
    prompt = shared.format.startswith("prompt")
    if not shared.talk.json and not shared.talk.quiet:
        _say_cuts(answers, shared, batch=shape.batch, prompt=prompt and not shape.ids)
    if shape.ids:
        sys.stdout.write(formats.as_ids(answers))
    elif shared.format in _PRINT:
        _PRINT[shared.format](answers, shared, shape)
    else:
        written = formats.BATCH_FORMATS if shape.batch else formats.FORMATS
        sys.stdout.write(written[shared.format](answers))


def _say_cuts(answers: Sequence[Answer], shared: Shared, *, batch: bool, prompt: bool) -> None:
    """Say which better hits, or hits that were good enough otherwise, limits have cut; a prompt speaks of its budget
    itself."""
    if not any(answer.spent or answer.trace or answer.confidence for answer in answers):
        return
    from retrieve_cli.output.cuts import cut_notes

    for answer in answers:
        where = f"query {answer.query.id}: " if batch else ""
        for note in cut_notes(answer, budget=not prompt):
            shared.talk.say(f"note: {where}{note}")


def _text(answers: Sequence[Answer], shared: Shared, shape: Shape) -> None:
    from retrieve_cli.output import text

    table = None
    if shared.format == "table":
        from retrieve_cli.output.answer_table import print_table

        table = partial(print_table, console=shared.console())
    shown = {"explain": shape.explain, "timing": bool(shape.timing), "batch": shape.batch}
    text.print_answers(answers, shared.page, table=table, **shown)


def _prompt(answers: Sequence[Answer], shared: Shared, shape: Shape) -> None:
    from retrieve_cli.output import prompt

    group_by: prompt.GroupBy = "group" if shape.group_by == "group" else "document"
    written = prompt.as_prompt(answers, group_by=group_by, batch=shape.batch)
    _write(written.text, written.notes, shared)


def _prompt_table(answers: Sequence[Answer], shared: Shared, shape: Shape) -> None:
    from retrieve_cli.output import prompt

    written = prompt.as_table(answers, batch=shape.batch)
    _write(written.text, written.notes, shared)


def _trec(answers: Sequence[Answer], shared: Shared, shape: Shape) -> None:
    ids = formats.trec_ids(answers)
    notes = [ids.notice] if ids and shape.trec_ids is None else []
    _write(formats.as_trec(answers), notes, shared)
    if shape.trec_ids is not None:
        from retrieve_cli.storage import durable

        try:
            durable.put(shape.trec_ids, ids.lines())
        except OSError as error:
            raise unwritable(shape.trec_ids, error) from error


def _write(text: str, notes: Sequence[str], shared: Shared) -> None:
    sys.stdout.write(text)
    for note in notes:
        shared.talk.say(f"note: {note}")


_PRINT = {"text": _text, "table": _text, "prompt": _prompt, "prompt-table": _prompt_table, "trec": _trec}
