"""Records to chunks: one file a chunker, and what they share."""
