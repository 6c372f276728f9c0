"""The channel of a tool's answer that carries the texts: `content`, `structuredContent`, or both.

Clients differ in what they pass on to their model, and the protocol has no word for it. A client that passes on one
channel must find the texts there; one that passes on both must not pay for them twice. A client that is not known gets
them in both: a text that is paid twice is better than none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mcp_types.version import is_version_at_least

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
