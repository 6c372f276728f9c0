"""SPLADE and its kin: texts as weighted entries of a model's vocabulary."""
