"""A chat model for tests that really chooses: it reads the prompt and ranks the candidates by the words they share."""

import json
import re
from typing import Any

from models.remote.servers import Asked


def candidates(asked: Asked) -> list[dict[str, Any]]:
    """What the model is shown: the number and the text of each candidate."""
    content = asked.json["messages"][1]["content"]
    inside = content.partition("<candidates>\n")[2].partition("\n</candidates>")[0]
    return [json.loads(line) for line in inside.splitlines()]


def request(asked: Asked) -> str:
    """The request that it is to answer."""
    content = asked.json["messages"][1]["content"]
    return str(json.loads(content.partition("<request>\n")[2].partition("\n</request>")[0]))


def most(asked: Asked) -> int:
    """How many it may pick."""
    found = re.search(r"Pick at most (\d+) of", asked.json["messages"][1]["content"])
    assert found is not None
    return int(found.group(1))


def words(text: str) -> set[str]:
    return {word.rstrip("s") for word in re.findall(r"[a-z]+", text.lower()) if len(word) > 3}


def said(content: str) -> dict[str, Any]:
    """A chat completion."""
    message = {"role": "assistant", "content": content}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


def by_words(asked: Asked) -> dict[str, Any]:
    """Pick those that share a word with the request, the most words first."""
    wanted = words(request(asked))
    shared = [(len(wanted & words(each["text"])), each["number"]) for each in candidates(asked)]
    ranked = sorted((each for each in shared if each[0]), key=lambda each: (-each[0], each[1]))
    return said(json.dumps({"picked": [number for _, number in ranked][: most(asked)]}))
