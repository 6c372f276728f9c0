"""What can go wrong with a request, sorted by what the caller can do about it.

Neither is chained to an error of the HTTP client, which would carry the request and with it the credentials.
"""


class Passing(Exception):
    """A failure that may pass by itself: worth another attempt, `after` seconds at least."""

    def __init__(self, reason: str, *, after: float = 0.0, status: int = 0) -> None:
        """`status` is that of the answer; 0 if there was none."""
        super().__init__(reason)
        self.after = after
        self.status = status


class HttpFailed(Exception):
    """A failure that another attempt would repeat."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint
