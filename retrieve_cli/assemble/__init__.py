"""Settings to parts: the only room that names a concrete source, chunker, encoder, index or stage."""
