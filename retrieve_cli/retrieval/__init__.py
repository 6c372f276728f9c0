"""Retrievers, stages, queries and the graph: from a query to a ranking."""
