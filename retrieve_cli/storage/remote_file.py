"""Names of what an attached generation has."""

from __future__ import annotations

from collections.abc import Callable, Sequence

ATTACHED = "attached.json"
Blocks = Callable[[str, Sequence[int]], list[bytes]]
