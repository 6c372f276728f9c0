"""First-stage retrievers, one file each: how an index is written, opened and searched."""
