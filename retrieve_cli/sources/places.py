"""Absolute places of sources, valid in any folder and process."""

from __future__ import annotations

import os
from pathlib import Path

from retrieve_cli.errors import UsageError


def absolute(path: Path) -> Path:
    """Return the path from the root. Links in it are kept, so that a source follows when its link is changed.

    Raises:
        UsageError: the name is not UTF-8, so a manifest cannot store it.
    """
    place = os.path.abspath(path)  # noqa: PTH100  resolve() would follow links, absolute() would keep `..`
    try:
        place.encode()
    except UnicodeEncodeError as error:
        shown = place.encode("utf-8", "replace").decode()
        raise UsageError(f"the name of {shown} is not UTF-8", hint="rename it, or its folder") from error
    return Path(place)
