"""Texts to vectors, term weights, token vectors and pair scores."""
