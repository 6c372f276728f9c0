"""Checks of a server: its version, its plugins, and how it is reached."""

from __future__ import annotations

from collections.abc import Sequence

from retrieve_cli.engines.opensearch.documents import WINDOW, OpensearchNames
from retrieve_cli.engines.opensearch.server import OpensearchServer, RequestRejected, ResourceMissing
from retrieve_cli.errors import RetrieveError, Unavailable

_OLDEST = (2, 16)
"""The first version whose searches for vectors take `ef_search`."""
_PLUGIN = "opensearch-knn"
_LOCAL = {"localhost", "127.0.0.1", "::1"}
_INSTALL = "install it on every node: bin/opensearch-plugin install opensearch-knn; or set engines.dense to local"


def require_vectors(server: OpensearchServer) -> None:
    """Check that the server can hold vectors.

    Raises:
        Unavailable: it is too old, or the k-NN plugin is not installed.
    """
    version = server.version()
    if version.distribution != "opensearch" or version.at_least < _OLDEST:
        raise Unavailable(_unfit(str(version)), hint=_UPGRADE)
    plugins = server.plugins()
    if plugins is not None and _PLUGIN not in plugins:
        message = f"OpenSearch at {server.address} has no k-NN plugin, which vectors need"
        raise Unavailable(message, hint=_INSTALL)


def plugins_in_short(server: OpensearchServer) -> str:
    """Return which plugins a server has, in words: the one that vectors need, and how many others."""
    plugins = server.plugins()
    if plugins is None:
        return "unknown"
    others = len(set(plugins) - {_PLUGIN})
    if _PLUGIN not in plugins:
        return f"{others}, none for vectors" if others else "none"
    return f"{_PLUGIN} {plugins[_PLUGIN]}" + (f" and {others} more" if others else "")


def server_problems(server: OpensearchServer, names: OpensearchNames) -> Sequence[tuple[str, str]]:
    """Return what keeps a server from being used, or used well, each with the edit or command that fixes it."""
    problems = []
    try:
        version = server.version()
    except RetrieveError as error:
        return [(error.message, error.hint or _UPGRADE)]
    if version.distribution != "opensearch" or version.at_least < _OLDEST:
        problems.append((_unfit(str(version)), _UPGRADE))
    plugins = server.plugins()
    if plugins is not None and _PLUGIN not in plugins:
        problems.append(("the k-NN plugin is not installed: OpenSearch cannot hold vectors", _INSTALL))
    if server.authenticated and not server.encrypted and server.host not in _LOCAL:
        message = f"the password is sent to {server.host} without encryption"
        problems.append((message, "write opensearch.url as https://…"))
    try:
        settings = server.ask("GET", f"/{names.prefix}-*/_settings")
    except (ResourceMissing, RequestRejected):
        settings = {}
    for index, facts in settings.items():
        if names.owner(index) in (None, index.removeprefix(f"{names.prefix}-")):
            continue  # not one of ours, or a home index, which is not searched
        window = int(facts["settings"]["index"].get("max_result_window", 10_000))
        if window < WINDOW:
            message = f"index.max_result_window of {index} is {window}: searches for {WINDOW} rows fail"
            problems.append((message, f"set it to {WINDOW}, or run: retrieve engines push"))
    return problems


_UPGRADE = "run OpenSearch 2.16 or later, or edit opensearch.url"


def _unfit(version: str) -> str:
    return f"the server is {version}, and OpenSearch 2.16 or later is needed"
