"""Qdrant by its REST interface: collections, points and aliases."""
