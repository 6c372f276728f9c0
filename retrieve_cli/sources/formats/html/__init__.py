"""HTML pages: text, structure and metadata of the main content."""
