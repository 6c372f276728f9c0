"""Prompts: the two ways of asking an index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import mcp_types as types

from retrieve_cli.errors import UsageError, printable, quoted
from retrieve_cli.serving.mcp.instructions import DATA


class _Prompt(NamedTuple):
    """A prompt with one argument, whose value stands in its text."""

    description: str
    argument: str
    about: str
    text: str


_PROMPTS: Mapping[str, _Prompt] = {
    "find_tool": _Prompt(
        "Find the tool for a task.",
        "task",
        "What the tool is for: input, output, platform.",
        "Find the tools in the index that fit this task best:\n\n{}\n\n"
        "Call `search` with the task in a few words, and again in other words if the results do not fit. "
        "Use `list_fields` and `filters` for licence, format or platform. `fetch` the best two or three before you "
        "compare them. Name each with its id and url, what it does for this task, what it requires, and what speaks "
        "against it. Say so if none fits.",
    ),
    "answer_with_citations": _Prompt(
        "Answer a question from the index, with citations.",
        "question",
        "The question.",
        "Answer this question from the index alone:\n\n{}\n\n"
        "Call `search`, one part of the question at a time, and `fetch` what you rely on. Put the id of the source in "
        "brackets behind each statement, for example [guide.md#3]. If sources disagree, say how. If the index does "
        "not have the answer, say so and do not guess.",
    ),
}


def listed() -> list[types.Prompt]:
    """Return the prompts, always in the same order."""
    return [
        types.Prompt(
            name=name,
            description=prompt.description,
            arguments=[types.PromptArgument(name=prompt.argument, description=prompt.about, required=True)],
        )
        for name, prompt in _PROMPTS.items()
    ]


def prompt_of(name: str, arguments: Mapping[str, str]) -> types.GetPromptResult:
    """Return a prompt for its argument. Raises: UsageError: there is no such prompt, or its argument is missing."""
    if (prompt := _PROMPTS.get(name)) is None:
        raise UsageError(f"there is no prompt {quoted(name)}", hint=f"prompts: {', '.join(_PROMPTS)}")
    if not (value := arguments.get(prompt.argument, "").strip()):
        raise UsageError(f"{name} needs {prompt.argument}", hint=prompt.about)
    text = printable(f"{prompt.text.format(value)}\n{DATA}", "\n\t")
    return types.GetPromptResult(
        description=prompt.description,
        messages=[types.PromptMessage(role="user", content=types.TextContent(text=text))],
    )
