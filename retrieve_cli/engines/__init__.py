"""Engines: databases and search servers in which indexes live instead of in local files; one file each."""
