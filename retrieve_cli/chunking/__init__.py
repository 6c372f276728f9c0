"""Records to chunks: where a long text is cut."""
