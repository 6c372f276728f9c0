"""Models that the stages need; list, pull, verify, export."""
