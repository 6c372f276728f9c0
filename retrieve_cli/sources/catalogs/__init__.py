"""Catalogs: lines to records."""
