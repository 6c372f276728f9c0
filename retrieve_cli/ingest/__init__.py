"""Sources to a published generation: plan, build, sync, reuse, embedding, report."""
