"""Where a source lies, so that it is found again from any folder and in any process."""

from __future__ import annotations

import os
from pathlib import Path

from retrieve_cli.errors import UsageError


def absolute(path: Path) -> Path:
    """The path from the root. A link in it stays one: who points it elsewhere means the source to follow.

    Raises:
        UsageError: its name is not UTF-8, so that no manifest could hold it.
    """
    place = os.path.abspath(path)  # noqa: PTH100  resolve() would follow links, absolute() would keep `..`
    try:
        place.encode()
    except UnicodeEncodeError as error:
        shown = place.encode("utf-8", "replace").decode()
        raise UsageError(f"the name of {shown} is not UTF-8", hint="rename it, or its folder") from error
    return Path(place)
