"""Providers of web results and literature, and enrichers: one file for each service, all I/O through `fetch`."""
