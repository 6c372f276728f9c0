"""Facts from the headers of files, as tokens of a query: one module per family of formats."""
