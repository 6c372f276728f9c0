"""Confidence of an answer: the calibration that holds for its scores, and the hits that are dropped."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Json, Ranking
from retrieve_cli.errors import UsageError
from retrieve_cli.frozen import Frozen

if TYPE_CHECKING:
    from retrieve_cli.retrieval.calibration import Calibration


class Confidence(Frozen):
    """A calibration, and the least confidence that is asked for."""

    calibration: Calibration
    least: float | None

    @classmethod
    def of(
        cls, path: Path, card: Mapping[str, Json], least: float | None, say: Callable[[str], None]
    ) -> Confidence | None:
        """Return the calibration in a file, made on scores of this card; None without one.

        A file that cannot be read is an error only if a confidence is requested, and a notice otherwise.

        Raises:
            UsageError: a confidence is requested without a calibration, or the file is damaged.
        """
        if least is None and not os.path.lexists(path):
            return None
        from retrieve_cli.retrieval.calibration import AGAIN, read  # most indexes are not calibrated

        try:
            known = read(path)
        except UsageError as error:
            if least is not None:
                raise
            say(f"no confidence: {error.message} ({error.hint})")
            known = []
        found = next((each for each in known if each.card == card), None)
        if found is not None:
            if least is not None:
                found.at(least)
            return cls(found, least)
        if least is not None and known:
            raise UsageError("the calibration was made for other scores: the index or the search changed", hint=AGAIN)
        if least is not None:
            hint = "make one from judged queries: retrieve eval --gold FILE --calibrate"
            raise UsageError("there is no calibration yet, so results have no confidence", hint=hint)
        return None

    def filter(self, ranking: Ranking) -> tuple[Ranking, list[float]]:
        """Return the hits that are confident enough, and the confidence of each."""
        found = self.calibration.confidence([hit.score for hit in ranking.hits]).tolist()
        kept = [pair for pair in zip(ranking.hits, found, strict=True) if pair[1] >= (self.least or 0.0)]
        hits = tuple(hit for hit, _ in kept)
        return Ranking(ranking.query, hits, ranking.trace), [confidence for _, confidence in kept]

    def source(self, left_out: int) -> dict[str, Json]:
        """Return the origin of the confidence, its quality, and the error rates of a least confidence."""
        calibration = self.calibration
        source: dict[str, Json] = {
            "method": calibration.method,
            "queries": calibration.queries,
            "generation": calibration.generation,
            "calibration_error": calibration.calibration_error,
            "base_rate": calibration.relevant / calibration.pairs if calibration.pairs else 0.0,
        }
        if self.least is not None:
            accepted, rejected = calibration.at(self.least)
            source |= {"min_confidence": self.least, "left_out": left_out}
            source |= {"false_accept_rate": accepted, "false_reject_rate": rejected}
        return source
