"""Limits within which a document is parsed."""

from __future__ import annotations

from typing import NamedTuple

MB = 2**20


class ParsingLimits(NamedTuple):
    """Limits of one file, and the one choice that shapes its text."""

    max_bytes: int = 200 * MB
    max_pages: int = 5000
    max_ratio: float = 100.0
    """Ratio of the size of compressed parts to the size they have when they are read."""
    memory_bytes: int = 1024 * MB
    """Memory of the process that parses it."""
    cpu_s: float = 60.0
    """CPU seconds for the whole file."""
    main_content: bool = True
    """Only the main content of HTML pages: no navigation, header and footer."""
