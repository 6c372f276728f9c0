"""Requests to answers over the current generation."""
