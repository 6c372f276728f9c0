"""Split records into chunks."""
