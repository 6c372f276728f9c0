"""Models behind an HTTP server: vectors, pair scores and choices from a list, over the APIs that servers share."""
