"""Generations on disk, `current`, the lock, caches, pickles and durable files."""
