"""Which models the stages need; list, pull, verify, export."""
