"""What was written down: the JSON files beside the tests, how values come into them, and how they are compared.

Floats are written with six significant digits. Which kernel NumPy's BLAS or onnxruntime takes depends on the processor
and decides the last bits of a score, so a float found is held to the one written within a tolerance a little above
that. Rounding both and asking for equality would not do: a score next to where it rounds up would still flip.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator
from math import isclose
from pathlib import Path
from typing import Any

WRITE = "RETRIEVE_WRITE_GOLDEN"
"""The environment variable that has the files written anew, set to 1."""

RELATIVE, ABSOLUTE = 1e-5, 2e-6
"""How far a float may be from the one written down. Six digits alone make up half of the former; the latter is for
what is near zero because it is a difference."""

LEFT_OUT = frozenset({"timings_ms", "latency_ms", "per_query", "generation"})
"""Keys that hold times, names of files, or the generation, which test_generation_ids.py looks at."""

TEXTS = frozenset({"content", "description"})
"""Keys of texts out of the corpus, of which a long one is written down as its SHA-1."""

_LONG = 48
_NUMBER = re.compile(r"(-?\d+\.\d+(?:e-?\d+)?)")


def plain(value: Any) -> Any:
    """A value without what differs from run to run, and with the SHA-1 of long texts in their place."""
    if isinstance(value, dict):
        kept = {key: part for key, part in value.items() if key not in LEFT_OUT}
        return {key: _digest(part) if key in TEXTS else plain(part) for key, part in kept.items()}
    return [plain(part) for part in value] if isinstance(value, list) else value


def _digest(text: str) -> str:
    return text if len(text) <= _LONG else "sha1:" + hashlib.sha1(text.encode()).hexdigest()


def rounded(value: Any) -> Any:
    """A value with six significant digits of each float."""
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def differences(found: Any, wanted: Any, *, coarse: float = 0.0, at: str = "") -> Iterator[str]:
    """Where two values differ, and how. Numbers within texts are compared as numbers too.

    `coarse` is a tolerance besides, for scores that hang on quantised vectors.
    """
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in [*wanted, *(key for key in found if key not in wanted)]:
            if key in found and key in wanted:
                yield from differences(found[key], wanted[key], coarse=coarse, at=f"{at}.{key}")
            else:
                yield f"{at}.{key}: {'gone' if key in wanted else 'new'}"
        if list(found) != list(wanted):
            yield f"{at}: the keys are in another order"
    elif isinstance(found, list) and isinstance(wanted, list):
        if len(found) != len(wanted):
            yield f"{at}: {len(found)} instead of {len(wanted)}"
        for place, (one, other) in enumerate(zip(found, wanted, strict=False)):
            yield from differences(one, other, coarse=coarse, at=f"{at}[{place}]")
    elif not _alike(found, wanted, coarse):
        yield f"{at}: {found!r} instead of {wanted!r}"


def _alike(found: Any, wanted: Any, coarse: float) -> bool:
    if isinstance(found, float) and isinstance(wanted, float):
        return isclose(found, wanted, rel_tol=RELATIVE, abs_tol=ABSOLUTE + coarse)
    if isinstance(found, str) and isinstance(wanted, str):
        ours, theirs = _NUMBER.split(found), _NUMBER.split(wanted)
        near = (_near_text(*pair, coarse) for pair in zip(ours[1::2], theirs[1::2], strict=False))
        return ours[::2] == theirs[::2] and all(near)
    return type(found) is type(wanted) and bool(found == wanted)


def _near_text(found: str, wanted: str, coarse: float) -> bool:
    """Whether two numbers are the same but for their last shown digit."""
    step = 10.0 ** -min(len(text.partition(".")[2]) for text in (found, wanted))
    return isclose(float(found), float(wanted), abs_tol=1.01 * step + coarse)


class Golden:
    """A file of values by name. Where it is to be written anew, nothing is compared."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.writing = os.environ.get(WRITE) == "1"
        self._known: dict[str, Any] = {} if self.writing else json.loads(path.read_text())

    @property
    def names(self) -> list[str]:
        return list(self._known)

    def __getitem__(self, name: str) -> Any:
        return self._known[name]

    def hold(self, name: str, found: Any, *, coarse: float = 0.0) -> None:
        """Compares a value with what is written under that name, or keeps it to be written."""
        if self.writing:
            self._known[name] = rounded(plain(found))
        else:
            wrong = list(differences(plain(found), self._known[name], coarse=coarse))
            assert not wrong, "\n".join(wrong)

    def write(self) -> None:
        """Writes the file where that is asked for: a line each, so that a change shows what it is about."""
        if self.writing:
            lines = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in self._known.items())
            self._path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
