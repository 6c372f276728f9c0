"""Notes of `query` on stderr: what it read from files, and keys of the configuration that its index does not have."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from retrieve_cli.cli.options import Shared
from retrieve_cli.config.settings import Settings, sections

if TYPE_CHECKING:
    from retrieve_cli.search.answer import Answer
    from retrieve_cli.storage.generation import Generation


def say_notes(answers: Sequence[Answer], shared: Shared, *, files: Collection[str]) -> None:
    """Say what the user should know of the answers, and what was read from `files`, those of the command line."""
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
    """Say which of the keys that the configuration sets (`given`, and where) a sync would apply, if there are any."""
    if shared.talk.quiet or shared.talk.json or sections("index").isdisjoint(key.partition(".")[0] for key in given):
        return
    from retrieve_cli.assemble.unapplied import summary, unapplied
    from retrieve_cli.storage.records.columns import columns_of

    columns = partial(columns_of, generation)
    differing = unapplied(settings, generation.manifest.recipe, columns=columns, keys=given)
    if differing:
        them = "it" if len(differing) == 1 else "them"
        shared.talk.say(f"note: {summary(differing, given)}: {_sync(shared)} applies {them}")


def _sync(shared: Shared) -> str:
    """Return the command, for this folder and this configuration."""
    words = ["retrieve", "sync"]
    if str(shared.artifacts) != "artifacts":
        words += ["--artifacts", str(shared.artifacts)]
    if shared.config is not None:
        words += ["--config", str(shared.config)]
    return shlex.join(words)
