"""What scenarios of the whole program begin with: keys of the configuration, and an answer as JSON."""

from collections.abc import Callable
from typing import Any

from samples import Program

Configure = Callable[..., None]
"""Sets keys of a section of the configuration in the environment."""


def answered(retrieve: Program, *words: object) -> dict[str, Any]:
    """The answer to a query, as JSON."""
    done = retrieve("query", *words, "--json")
    assert done.code == 0, done
    return dict(done.json)
