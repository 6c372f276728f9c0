"""Facts from the headers of files, as tokens of a query."""
