"""Formats of `query` that say something on stderr too: prompts what did not fit, runs which ids are encoded."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from retrieve_cli.cli.options import Shape, Shared
from retrieve_cli.errors import unwritable
from retrieve_cli.output import formats
from retrieve_cli.search.answer import Answer


def _prompt(answers: Sequence[Answer], shared: Shared, shape: Shape) -> None:
    from retrieve_cli.output import prompt

    group_by: prompt.GroupBy = "document" if shape.group_by is None else shape.group_by.value
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


PRINT = {"prompt": _prompt, "prompt-table": _prompt_table, "trec": _trec}
