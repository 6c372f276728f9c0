"""The one reader of front matter: metadata in YAML or TOML at the top of a text."""

from __future__ import annotations

from math import isfinite

from retrieve_cli.contracts import Json

_FENCES = {"---": ("---", "..."), "+++": ("+++",)}
"""Line that opens front matter, and the lines that close it."""
_MOST_VALUES = 10_000
_DEEPEST = 32
_MOST_COMMENTS = 20
_NO_MAPPING = "its front matter is not a mapping of keys to values: indexed as text"
_LARGEST = 2**53
"""Whole numbers beyond this limit differ between JSON readers; they are kept as strings."""


def front_matter(text: str) -> tuple[dict[str, Json], int, int, str]:
    """Return the metadata at the top of a text, the start and end of their lines, and a complaint if they are invalid.

    Values are as in a catalog: a number is one that JSON prints the same way, a date is a text. Without front
    matter the end is 0, as if it is a text between two rules. Blank lines and HTML comments may be above it. `text` has
    "\n" as its line ends.
    """
    start = _start(text)
    fence = text[start : start + 3]
    first = text.find("\n", start)
    if fence not in _FENCES or first < 0 or text[start + 3 : first].strip():
        return {}, 0, 0, ""
    begin = line = first + 1
    while line < len(text):
        end = text.find("\n", line)
        end = len(text) if end < 0 else end
        if text[line:end].rstrip() in _FENCES[fence]:
            metadata, complaint = _values(text[begin:line], fence)
            is_text = complaint == _NO_MAPPING
            return metadata, start, 0 if is_text else min(end + 1, len(text)), complaint
        line = end + 1
    return {}, 0, 0, ""


def _start(text: str) -> int:
    """Return the start of the first line that is neither blank nor an HTML comment."""
    start = 0
    for _ in range(_MOST_COMMENTS):
        words = len(text) - len(text[start:].lstrip())
        start = text.rfind("\n", start, words) + 1 or start
        end = text.find("-->", start) if text.startswith("<!--", start) else -1
        if end < 0:
            break
        start = end + 3
    return start


def _values(text: str, fence: str) -> tuple[dict[str, Json], str]:
    """Return the metadata that a text in YAML or TOML has, or a complaint."""
    language = "YAML" if fence == "---" else "TOML"
    try:
        value = _yaml(text) if fence == "---" else _toml(text)
        if value is not None and not isinstance(value, dict):
            return {}, _NO_MAPPING
        return _plain(value or {}), ""
    except (ValueError, RecursionError) as error:
        return {}, f"its front matter is not valid {language} ({error}): indexed as text"


def _yaml(text: str) -> Json:
    from retrieve_cli.untrusted import yaml_text  # yaml only for files that have some

    return yaml_text.load(text, values=_MOST_VALUES, number=yaml_text.printed_number)


def _toml(text: str) -> Json:
    import tomllib

    return tomllib.loads(text)


def _plain(value: Json, level: int = 0) -> Json:
    """Return a value in a form that JSON can hold. Raises: ValueError: it is nested too deeply."""
    if level > _DEEPEST:
        raise ValueError(f"nested deeper than {_DEEPEST} levels")
    if isinstance(value, dict):
        return {_text(key): _plain(part, level + 1) for key, part in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(part, level + 1) for part in value]
    if value is None or isinstance(value, bool):
        return value
    small = isinstance(value, int) and abs(value) < _LARGEST
    return value if small or (isinstance(value, float) and isfinite(value)) else _text(value)


def _text(value: Json) -> str:
    """Return a string that UTF-8 can encode; a date of TOML in ISO 8601."""
    iso = getattr(value, "isoformat", None)
    return str(iso() if iso else value).encode("utf-8", "replace").decode()
