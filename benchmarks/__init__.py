"""Figures for README: quality on real collections, speed as a ratio to a naive peer in the same run."""
