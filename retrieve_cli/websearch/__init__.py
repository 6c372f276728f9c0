"""Web and literature search: providers behind one promise, their requests and stored answers, and merging of works."""
