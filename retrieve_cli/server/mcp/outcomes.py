"""Outcome of a tool as an answer of the protocol: content, structured content and links.

Clients differ in the channels that they pass on to their model, and the protocol does not declare them. A client that
passes on one channel must find the texts there; one that passes on both must not pay for them twice. An unknown client
gets them in both: a text that is paid twice is better than a missing one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import mcp_types as types
from mcp_types.version import is_version_at_least

from retrieve_cli.api.choices import SEARCH
from retrieve_cli.contracts import Json
from retrieve_cli.errors import RetrieveError, escaped_json, printable
from retrieve_cli.search.answer import Answer


class RecordLink(NamedTuple):
    """A link to a resource."""

    uri: str
    name: str


class ToolOutcome(NamedTuple):
    """Result of a tool: texts are in the channels that the client passes on."""

    structured: Mapping[str, Json]
    text: str
    """For people and models."""
    summary: str
    """The content if the texts are in the structured content only."""
    links: Sequence[RecordLink] = ()
    answers: Sequence[Answer] = ()
    """Answers to its searches, for the metrics."""


def compact_json(value: Json) -> str:
    """Return a value as JSON without blanks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def answer_of(outcome: ToolOutcome, channels: Channels) -> types.CallToolResult:
    """Return the answer with an outcome."""
    text = printable(outcome.text if channels.content else outcome.summary, "\n\t")
    if channels.mirrored:
        text = escaped_json(compact_json(outcome.structured))
    content: list[types.ContentBlock] = [types.TextContent(text=text)]
    if channels.links:
        content += [types.ResourceLink(uri=link.uri, name=link.name, mime_type="text/plain") for link in outcome.links]
    structured = None if channels.plain else dict(outcome.structured)
    return types.CallToolResult(content=content, structured_content=structured, is_error=False)


def failure_of(message: str, hint: str = "") -> types.CallToolResult:
    """Return an error that the model reads and can act on."""
    text = f"{message}; {hint}" if hint else message
    return types.CallToolResult(content=[types.TextContent(text=printable(text))], is_error=True)


def failed(error: RetrieveError) -> types.CallToolResult:
    """Return the answer with the failure of a tool."""
    return failure_of(error.message, SEARCH.without_flags(error.hint))


_STRUCTURED_SINCE = "2025-06-18"
"""The first revision with `structuredContent` and links to resources in answers."""


class Channels(NamedTuple):
    """Use of the channels of an answer."""

    content: bool = True
    """The texts are in the content."""
    structured: bool = True
    """The texts are in the structured content."""
    mirrored: bool = False
    """The content is the structured content as JSON."""
    plain: bool = False
    """The revision has content of texts alone."""

    @property
    def links(self) -> bool:
        """True if each result has a link: a client that reads the structured content has its id there."""
        return self.content and not self.plain


CONTENT = Channels(structured=False)
STRUCTURED = Channels(content=False)
BOTH = Channels()
MIRRORED = Channels(content=False, mirrored=True)
PLAIN = Channels(structured=False, plain=True)

CHOICES: Mapping[str, Channels] = {"content": CONTENT, "structured": STRUCTURED, "both": BOTH}
"""The values of --mcp-texts."""
CLIENTS: Mapping[str, Channels] = {
    "claude-code": STRUCTURED,  # passes on the structured content alone: anthropics/claude-code#79944
    "claude-ai": CONTENT,
    "codex": STRUCTURED,
    "copilot": STRUCTURED,  # passes on both: github/copilot-cli#4515
    "cursor": CONTENT,
    "gemini-cli": CONTENT,
    "github-copilot": STRUCTURED,
    "openai-mcp": MIRRORED,  # ChatGPT reads both as the same JSON
    "opencode": STRUCTURED,  # anomalyco/opencode#32074
    "visual studio code": STRUCTURED,  # passes on no text of the content beside it
}
"""By the beginning of the name that a client gives itself."""


def channels_of(client: str, version: str, chosen: str | None = None) -> Channels:
    """Return the channels for a client by its name, or those that the operator has chosen."""
    if not is_version_at_least(version, _STRUCTURED_SINCE):
        return PLAIN
    if chosen is not None:
        return CHOICES[chosen]
    name = client.strip().casefold()
    return next((channels for start, channels in CLIENTS.items() if name.startswith(start)), BOTH)
