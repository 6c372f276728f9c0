"""Merging of items that describe one work: identifiers, declared relations, titles; and the fields of the result."""
