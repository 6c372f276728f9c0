"""Confidence: the probability that a hit with a score is relevant, calibrated on judged queries.

A calibration is valid for the scores it was measured on and for no others: its card identifies them, and cards are
compared before it is applied. `evaluation/calibrate.py` makes calibrations; here they are applied, written and read,
without scikit-learn. Probabilities and rates lie in [0, 1].
"""

from __future__ import annotations

import json
import math
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec.structs import force_setattr

from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.frozen import Frozen, asdict
from retrieve_cli.storage import durable
from retrieve_cli.storage.manifest import sha1
from retrieve_cli.untrusted.files import MANIFEST, UnreadableFile, read_bytes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

SCHEMA_VERSION = 1
GRID = tuple(percent / 100 for percent in range(101))
"""Thresholds for which the rates of wrong decisions are stored."""
AGAIN = "calibrate again: retrieve eval --gold FILE --calibrate"


class Isotonic(Frozen):
    """Piecewise linear curve through the points (x, y), constant beyond its ends: x increasing, y never falling.

    Raises:
        ValueError: the points are not of that form.
    """

    x: tuple[float, ...]
    y: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.x or len(self.x) != len(self.y) or not all(map(math.isfinite, self.x)):
            raise ValueError("a curve needs points, each with a finite score and a probability")
        if any(left >= right for left, right in pairwise(self.x)):
            raise ValueError("the scores of a curve do not increase")
        if not all(left <= right for left, right in pairwise((0.0, *self.y, 1.0))):
            raise ValueError("the probabilities of a curve fall, or leave the range from 0 to 1")

    def __call__(self, scores: Floats) -> Floats:
        import numpy as np

        x, y = np.array(self.x), np.array(self.y)
        if x.size == 1:
            return np.full_like(scores, y[0])
        # Not np.interp: at a point it may round past its value, and confidence must not fall as the score rises.
        inside = np.clip(scores, x[0], x[-1])
        left = np.minimum(np.searchsorted(x, inside, "right"), x.size - 1) - 1
        share = (inside - x[left]) / (x[left + 1] - x[left])
        found: Floats = np.minimum(y[left] + share * (y[left + 1] - y[left]), y[left + 1])
        return found


class Logistic(Frozen):
    """1 / (1 + exp(-(intercept + slope · (score - centre)))), with slope >= 0.

    The centre is the centre of the scores it was fitted on: around 0, scores far from 0 would lose their digits.

    Raises:
        ValueError: a number is not finite, or the slope is below 0.
    """

    centre: float
    slope: float
    intercept: float

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, (self.centre, self.slope, self.intercept))) or self.slope < 0:
            raise ValueError("a logistic curve needs finite coefficients and a slope of at least 0")

    def __call__(self, scores: Floats) -> Floats:
        import numpy as np

        # exp(700) is still a number.
        exponent = np.clip(self.intercept + self.slope * (scores - self.centre), -700, 700)
        found: Floats = 1 / (1 + np.exp(-exponent))
        return found


Curve: TypeAlias = Isotonic | Logistic
Method: TypeAlias = Literal["isotonic", "logistic"]
_CURVES: Mapping[str, type[Isotonic | Logistic]] = {"isotonic": Isotonic, "logistic": Logistic}


class Bin(Frozen):
    """Hits of similar confidence: mean confidence, share of relevant hits, and their number."""

    predicted: float
    observed: float
    count: int


class Calibration(Frozen):
    """A curve from score to probability, the scores it is valid for, and its errors.

    The errors are measured on held-out queries; the curve itself is fitted on all queries.
    """

    curve: Curve
    card: Mapping[str, Json]
    """Origin of the scores as plain JSON: retrievers, fusion, unit, depth, and everything else that changes a score."""
    generation: str
    """Id of the index it was measured on."""
    queries: int
    pairs: int
    """Hits of all queries, each judged relevant or not."""
    relevant: int
    """Hits that are relevant."""
    brier: float
    """Mean squared distance of confidence and truth (Brier 1950)."""
    brier_base: float
    """The same for the base rate, the share of relevant hits: a curve that is not below it is useless."""
    calibration_error: float
    """Mean distance of confidence and observed share over the bins (expected calibration error)."""
    reliability: tuple[Bin, ...]
    """At most ten bins of about equal size, by increasing confidence."""
    rates: tuple[tuple[float, float], ...]
    """For each threshold of GRID the false-accept and the false-reject rate, see `at`."""

    def __post_init__(self) -> None:
        if len(self.rates) != len(GRID):
            raise ValueError(f"rates for {len(GRID)} thresholds are needed, not for {len(self.rates)}")
        # As it will be read again, so that cards compare alike before and after: a tuple becomes a list.
        force_setattr(self, "card", json.loads(json.dumps(dict(self.card), allow_nan=False)))

    @property
    def method(self) -> Method:
        return "isotonic" if isinstance(self.curve, Isotonic) else "logistic"

    def confidence(self, scores: Sequence[float] | ArrayLike) -> Floats:
        """(n,) float64 probabilities of (n,) scores, never falling as the score rises.

        Raises:
            ValueError: a score is not a finite number.
        """
        import numpy as np

        values = np.asarray(scores, dtype=np.float64)
        if not np.isfinite(values).all():
            raise ValueError("a score is not a finite number")
        return self.curve(values)

    def at(self, threshold: float) -> tuple[float, float]:
        """Return the false-accept and the false-reject rate of a confidence threshold.

        The former is the share of irrelevant hits that reach the threshold, the latter the share of relevant hits that
        do not. A relevant chunk that is not a hit counts in neither. Rates are measured at the next threshold of GRID
        at or below.

        Raises:
            UsageError: the threshold lies outside [0, 1].
        """
        if not 0 <= threshold <= 1:
            raise UsageError(f"a confidence is a number from 0 to 1, not {threshold}", hint="for example: 0.5")
        return self.rates[bisect_right(GRID, threshold) - 1]

    def to_json(self) -> dict[str, Json]:
        return {"method": self.method, **asdict(self)}

    @classmethod
    def from_json(cls, value: Mapping[str, Json]) -> Calibration:
        """Return the calibration that `to_json` wrote. Raises: ValueError: something is missing or out of range."""
        try:
            curve = _CURVES[value["method"]]
            coefficients: dict[str, Json] = {  # each a number, or the coordinates of points
                name: tuple(map(_number, given)) if isinstance(given, list | tuple) else _number(given)
                for name, given in value["curve"].items()
            }
            return cls(
                curve=curve(**coefficients),
                card=_as(dict, value["card"]),
                generation=_as(str, value["generation"]),
                queries=_count(value["queries"]),
                pairs=_count(value["pairs"]),
                relevant=_count(value["relevant"]),
                brier=_share(value["brier"]),
                brier_base=_share(value["brier_base"]),
                calibration_error=_share(value["calibration_error"]),
                reliability=tuple(
                    Bin(_share(entry["predicted"]), _share(entry["observed"]), _count(entry["count"]))
                    for entry in value["reliability"]
                ),
                rates=tuple((_share(accepted), _share(rejected)) for accepted, rejected in value["rates"]),
            )
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error


def _as(kind: type, value: Json) -> Json:
    if not isinstance(value, kind) or isinstance(value, bool):  # to Python a truth value is a whole number
        raise TypeError(f"{quoted(value)} is not a {kind.__name__}")
    return value


def _count(value: Json) -> int:
    number: int = _as(int, value)
    if number < 0:
        raise ValueError(f"{number} is not a count")
    return number


def _number(value: Json) -> float:
    return float(value if isinstance(value, float) else _as(int, value))


def _share(value: Json) -> float:
    number = _number(value)
    if not 0 <= number <= 1:
        raise ValueError(f"{number} is not between 0 and 1")
    return number


def read(path: Path) -> list[Calibration]:
    """Return the calibrations in a file; none if there is no file.

    Raises:
        UsageError: the file cannot be read, is damaged, or from another schema.
    """
    try:
        return _load(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", hint=AGAIN) from error
    except ValueError as error:
        raise UsageError(f"{path} is not a file of calibrations: {error}", hint=AGAIN) from error


def write(path: Path, calibrations: Sequence[Calibration]) -> Path | None:
    """Add calibrations to a file; each replaces the one with the same card.

    A file that cannot be read is renamed and its new path returned: the hint of `read` is to calibrate again, which
    must not fail because of the same file. If two processes write at once, the last one wins.

    Raises:
        OSError: the file cannot be written.
    """
    aside = None
    kept: list[Calibration] = []
    try:
        kept = _load(path)
    except (ValueError, IsADirectoryError, UnreadableFile):
        aside = path.rename(path.with_name(f"{path.name}.damaged-{time.time_ns()}"))
    for calibration in calibrations:
        kept = [other for other in kept if other.card != calibration.card] + [calibration]
    entries = [calibration.to_json() for calibration in kept]
    value = {"schema_version": SCHEMA_VERSION, "calibrations": entries, "sha1": sha1(entries)}
    durable.replace(path, json.dumps(value, allow_nan=False) + "\n")
    return aside


def _load(path: Path) -> list[Calibration]:
    """Return the result of `read`. Raises: ValueError: the file is of another schema."""
    return of_bytes(read_bytes(path, limit=MANIFEST)) if path.exists() else []


def of_bytes(content: bytes) -> list[Calibration]:
    """Return the calibrations of the content of a file. Raises: ValueError: it is not one of this schema."""
    try:
        value = json.loads(content)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    version = value.get("schema_version") if isinstance(value, dict) else None
    if version != SCHEMA_VERSION:
        raise ValueError(f"its schema version is {quoted(version)}; this retrieve reads {SCHEMA_VERSION}")
    try:
        if value.get("sha1") != sha1(value["calibrations"]):
            raise ValueError("its content does not match its SHA-1")
        return [Calibration.from_json(entry) for entry in value["calibrations"]]
    except (KeyError, TypeError) as error:
        raise ValueError("`calibrations` must be a list") from error
