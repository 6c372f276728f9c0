"""Failures of a model's server, sorted by what a person can do about it."""

from __future__ import annotations

from retrieve_cli.errors import IndexCorrupt, ModelFailed, Unavailable


class ServerFailed(ModelFailed):
    """A model's server answered with what cannot be believed, or refused the request for what it says."""

    kind = "server_failed"

    def __init__(self, message: str, *, hint: str = "", status: int = 0) -> None:
        """`status` is that of the answer, where the status is what is wrong."""
        super().__init__(message, hint=hint)
        self.status = status


class ServerUnavailable(Unavailable):
    """A model's server is not there, is not well, or lets nobody in without a key."""

    def __init__(self, message: str, *, hint: str = "", status: int = 0) -> None:
        """`status` is that of the last answer; 0 where there was none."""
        super().__init__(message, hint=hint)
        self.status = status


class OtherModel(IndexCorrupt, ModelFailed):
    """A server answers as another model than the one that the index was built with."""
