"""Milvus: one collection for each part of a generation, and one for its metadata and blocks of files."""
