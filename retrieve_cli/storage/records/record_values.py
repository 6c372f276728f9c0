"""Shim."""

from retrieve_cli.storage.records.column import values_of  # noqa: F401
