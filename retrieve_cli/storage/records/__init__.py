"""Stored rows of records, and the columns by which they are filtered and suggested."""
