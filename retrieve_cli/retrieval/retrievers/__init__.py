"""First-stage retrievers (bm25, dense, splade, llm), one value each, with the index files that they write and read."""
