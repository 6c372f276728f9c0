"""A generation as one file, to keep and to carry: written, verified, listed, restored."""
