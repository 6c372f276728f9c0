"""Boxes in the direction in which their text is read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SKEWED = 45
"""Turn of text that is neither level nor upright, such as a watermark."""
RTL = re.compile(r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")
"""A letter of a script that is written from right to left."""


def reading_boxes(boxes: NDArray[np.float32], turns: NDArray[np.int16]) -> NDArray[np.float32]:
    """Return displayed boxes (n, 4) as a reader sees them who turns the page until the text runs from left to right."""
    if not turns.any():
        return boxes
    x0, y0, x1, y1 = boxes.T
    turned = boxes.copy()
    for turn, sides in ((90, (y0, -x1, y1, -x0)), (180, (-x1, -y1, -x0, -y0)), (270, (-y1, x0, -y0, x1))):
        chosen = turns == turn
        if chosen.any():
            turned[chosen] = np.stack(sides, axis=1)[chosen]
    return turned
