"""A chat model's answer, held to what it was asked for: JSON, numbers in range, each once."""

from __future__ import annotations

from math import isfinite

from retrieve_cli.contracts import Json
from retrieve_cli.untrusted.foreign_json import foreign_json

_THOUGHT = ("<think>", "</think>")
_FENCE = "```"


class Unusable(Exception):
    """The answer is not what was asked for. The message is ours alone: it goes back to the model."""


def scores(content: str, count: int) -> list[float]:
    """The score of each of `count` candidates.

    Raises:
        Unusable: one is missing, there twice, out of range, or no number.
    """
    by_number: dict[int, float] = {}
    for item in _list(content, "scores"):
        if not isinstance(item, dict) or item.keys() != {"number", "score"}:
            raise Unusable('an item of "scores" is not an object with "number" and "score" alone')
        number, score = item["number"], item["score"]
        _check_number(number, count)
        if number in by_number:
            raise Unusable(f"candidate {number} has two scores")
        if type(score) not in (int, float) or not isfinite(score) or not 0 <= score <= 100:
            raise Unusable(f"the score of candidate {number} is not a number from 0 to 100")
        by_number[number] = float(score)
    missing = [number for number in range(1, count + 1) if number not in by_number]
    if missing:
        raise Unusable(f"{len(missing)} candidates have no score, the first of them is {missing[0]}")
    return [by_number[number] for number in range(1, count + 1)]


def picked(content: str, candidates: int, *, count: int, least: int = 1) -> list[int]:
    """The chosen places from 0, the most important first.

    Raises:
        Unusable: fewer than `least`, more than `count`, one twice, one that is not there, or what is no number.
    """
    numbers = _list(content, "picked")
    for number in numbers:
        _check_number(number, candidates)
    if len(set(numbers)) < len(numbers):
        raise Unusable('a number is more than once in "picked"')
    if not least <= len(numbers) <= count:
        raise Unusable(f'"picked" has {len(numbers)} numbers, and not {least} to {count}')
    return [number - 1 for number in numbers]


def _check_number(number: Json, count: int) -> None:
    # By type: True is an int to Python, and 2.0 or "2" is a guess.
    if type(number) is not int or not 1 <= number <= count:
        raise Unusable(f"a candidate's number is not a whole number from 1 to {count}")


def _list(content: str, key: str) -> list[Json]:
    """The list that is all there is in the object."""
    try:
        answer = foreign_json(bare(content))
    except ValueError:
        raise Unusable("it is not JSON") from None
    if not isinstance(answer, dict) or answer.keys() != {key}:
        raise Unusable(f'it is not a JSON object with "{key}" as its only key')
    items = answer[key]
    if not isinstance(items, list):
        raise Unusable(f'"{key}" is not a list')
    return items


def bare(content: str) -> str:
    """Return the answer without what some models cannot help: to think aloud first, and to fence what they say.

    By searches from the ends, whose time grows with the text alone: no answer can stall it.
    """
    text = content.strip()
    if text.startswith(_THOUGHT[0]) and _THOUGHT[1] in text:
        text = text.partition(_THOUGHT[1])[2].strip()
    language, line_end, rest = text.removeprefix(_FENCE).partition("\n")
    if text.startswith(_FENCE) and line_end and language.strip() in ("", "json") and rest.endswith(_FENCE):
        return rest.removesuffix(_FENCE)
    return text
