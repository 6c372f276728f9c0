"""Settings to parts: the only room that names a concrete source, encoder, retriever, engine or reranker."""
