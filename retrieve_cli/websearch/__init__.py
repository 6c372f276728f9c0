"""Web and literature search: providers behind one promise, their cached answers, and one list of results."""
