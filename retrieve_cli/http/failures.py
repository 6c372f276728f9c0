"""Failures of a request, by what the caller can do about them.

Neither is chained to an error of the HTTP client, which would contain the request and thus the credentials.
"""


class TransientFailure(Exception):
    """A temporary failure: worth another attempt, after at least `after` seconds."""

    def __init__(self, reason: str, *, after: float = 0.0, status: int = 0) -> None:
        """`status` is the status of the answer; 0 without an answer."""
        super().__init__(reason)
        self.after = after
        self.status = status


class HttpFailed(Exception):
    """A permanent failure, which another attempt would repeat."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class NotPermitted(HttpFailed):
    """An address, a redirect or a size that the rules for servers chosen by others do not permit."""


class NotReadable(HttpFailed):
    """A complete answer that is not text, or whose coding is damaged."""
