"""First-stage retrievers, one value each: bm25, dense, splade, and the index files that they write and search."""
