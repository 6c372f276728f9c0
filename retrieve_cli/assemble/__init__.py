"""Conversion of settings to parts: the only package that names a concrete source, encoder, retriever or reranker."""
