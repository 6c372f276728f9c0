"""A generation as one file, to keep and to move: created, verified, listed, restored."""
