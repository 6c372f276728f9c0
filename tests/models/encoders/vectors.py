"""Texts to encode, and a comparison of their vectors."""

from typing import Any

import numpy as np

TEXTS = [
    "",
    " ",
    "segment lungs in CT",
    "nnU-Net: self-configuring deep learning for biomedical image segmentation \U0001f600 3D\u00b2",
    "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd \u0645\u0631\u062d\u0628\u0627",
    "\u7ec6\u80de\u5206\u5272 and caf\u00e9 na\u00efve, e\u0301 combining",
    "a\x00b\ttabs\nand\r\nlines   with   spaces  ",
    "[CLS] [SEP] [PAD] <pad> <s> are spelled out",
    "word " * 70,
    "the registration of brain volumes between subjects " * 60,
    "x" * 5000,
]
"""Empty, emoji, right-to-left, special tokens spelled out, longer than any model here takes."""


def cosines(left: Any, right: Any) -> Any:
    """The cosine of each row with the same row of the other matrix."""
    return (left * right).sum(axis=1) / (np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1))
