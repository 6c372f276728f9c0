"""A chat model for tests that really reads: it summarises a text by its first words, and finds PICO in tables."""

import json
import re
from collections.abc import Callable
from typing import Any

from models.remote.servers import Asked

TOKENS = 100
"""Tokens of one request by its account."""


def text_of(asked: Asked) -> str:
    """The text that the model is shown."""
    content = asked.json["messages"][1]["content"]
    return str(json.loads(content.partition("<text>\n")[2].partition("\n</text>")[0]))


def completion(content: Any, *, usage: Any = True, finish_reason: str = "stop") -> dict[str, Any]:
    """A chat completion; what is no text is said as JSON."""
    text = content if content is None or isinstance(content, str) else json.dumps(content)
    account = {"usage": {"total_tokens": TOKENS} if usage is True else usage} if usage else {}
    message = {"role": "assistant", "content": text}
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish_reason}], **account}


def summary_of(text: str) -> str:
    """The summary that the model makes: the words of the text with a capital letter, in their order."""
    return "about " + " ".join(re.findall(r"[A-Z]\w+", text)[:6])


def summarises(asked: Asked) -> dict[str, Any]:
    """Answer with a summary."""
    return completion({"summary": summary_of(text_of(asked))})


def finds_pico(asked: Asked) -> dict[str, Any]:
    """Answer with the value of each `name = value;` that stands in the text, empty for the others."""
    names = asked.json["response_format"]["json_schema"]["schema"]["required"]
    stated = dict(re.findall(r"(\w+) = ([^.\n]*)\.", text_of(asked)))
    return completion({name: stated.get(name, "") for name in names})


def says(*contents: Any, **more: Any) -> Callable[[Asked], Any]:
    """Answer with one content after the other, and then with summaries."""
    waiting = list(contents)
    return lambda asked: completion(waiting.pop(0), **more) if waiting else summarises(asked)
