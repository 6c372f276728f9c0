"""Outcome of a tool as an answer of the protocol: content, structured content and links."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import mcp_types as types

from retrieve_cli.contracts import Json
from retrieve_cli.errors import RetrieveError, escaped_json, printable
from retrieve_cli.search.answer import Answer
from retrieve_cli.serving.mcp.channels import Channels


class Link(NamedTuple):
    """A link to a resource."""

    uri: str
    name: str


class Outcome(NamedTuple):
    """Result of a tool: texts are in the channels that the client passes on."""

    structured: Mapping[str, Json]
    text: str
    """For people and models."""
    summary: str
    """The content if the texts are in the structured content only."""
    links: Sequence[Link] = ()
    answers: Sequence[Answer] = ()
    """Answers to its searches, for the metrics."""


def compact_json(value: Json) -> str:
    """Return a value as JSON without blanks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def answer_of(outcome: Outcome, channels: Channels) -> types.CallToolResult:
    """Return the answer with an outcome."""
    text = printable(outcome.text if channels.content else outcome.summary, "\n\t")
    if channels.mirrored:
        text = escaped_json(compact_json(outcome.structured))
    content: list[types.ContentBlock] = [types.TextContent(text=text)]
    if channels.links:
        links = outcome.links
        content += [types.ResourceLink(uri=link.uri, name=link.name, mime_type="text/plain") for link in links]
    return types.CallToolResult(
        content=content, structured_content=None if channels.plain else dict(outcome.structured), is_error=False
    )


def failure_of(message: str, hint: str = "") -> types.CallToolResult:
    """Return an error that the model reads and can act on."""
    text = f"{message}; {hint}" if hint else message
    return types.CallToolResult(content=[types.TextContent(text=printable(text))], is_error=True)


def failed(error: RetrieveError) -> types.CallToolResult:
    """Return the answer with the failure of a tool."""
    return failure_of(error.message, error.hint)
