"""Formats of documents: bytes -> text, structure, pages and metadata."""
