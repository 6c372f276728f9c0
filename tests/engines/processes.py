"""Servers of engines as processes of their own."""

import socket


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])
