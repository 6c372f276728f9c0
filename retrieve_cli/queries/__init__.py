"""Query text to its parts: tags, filters, files, fewer words."""
