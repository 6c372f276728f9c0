"""Input from outside, read within bounds of kind, size and depth."""
