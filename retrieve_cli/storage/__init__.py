"""Generations on disk, the `current` file, the lock, caches, pickles and durable files."""
