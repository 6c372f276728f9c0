"""Figures and their captions, which should share a chunk."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from retrieve_cli.chunking.blocks import Block
from retrieve_cli.chunking.titles import is_caption

_IMAGE = re.compile(r"!\[[^\[\]]{0,1000}\][(\[]|<(?:img|figure)\b", re.IGNORECASE)
_EMPHASIZED = re.compile(r"[ ]{0,3}([*_])(?![*_\s])[^*_]{1,2000}(?<!\s)\1\s{0,9}")


def caption_pairs(text: str, blocks: Sequence[Block]) -> list[bool]:
    """Return for each pair of neighbouring blocks whether they are a figure (or its paragraph) and its caption.

    A caption begins with `Figure 3. …` or `Fig. 2: …`. It is below its figure, or above it if no figure is above the
    caption. A line in italics below an image is a caption as well.
    """
    figures = [_figure(text, block) for block in blocks]
    bonds = []
    for index, (before, behind) in enumerate(pairwise(figures)):
        if behind.caption:
            above = index + 2 < len(figures) and figures[index + 2].shown
            bonds.append(before.prose and (before.shown or not (before.caption or above)))
        elif before.caption and behind.shown:
            bonds.append(index == 0 or not figures[index - 1].shown)
        else:
            bonds.append(before.shown and behind.emphasized)
    return bonds


class _Figure(NamedTuple):
    """Role of a block with regard to figures."""

    prose: bool
    """True for all blocks but headings."""
    shown: bool
    """True if the block contains an image."""
    caption: bool
    emphasized: bool


def _figure(text: str, block: Block) -> _Figure:
    if block.kind == "heading":
        return _Figure(prose=False, shown=False, caption=False, emphasized=False)
    words = text[block.start : block.end]
    emphasized = block.kind == "paragraph" and _EMPHASIZED.fullmatch(words) is not None
    shown = _IMAGE.search(words) is not None
    return _Figure(prose=True, shown=shown, caption=is_caption(words), emphasized=emphasized)
