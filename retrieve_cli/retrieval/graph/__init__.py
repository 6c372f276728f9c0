"""Edges between records: made, stored, and followed."""
