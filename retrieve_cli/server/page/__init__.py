"""The search page: search, records and comparisons for people, complete without JavaScript."""
