"""An open index that answers, and the reading of requests: the Python API, and the floor under every server."""
