"""Catalogs that are kept elsewhere: fetched into a file of JSON Lines here, then read as any catalog."""
