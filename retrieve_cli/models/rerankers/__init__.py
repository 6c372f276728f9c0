"""Cross-encoders: query and passage read together, by one model."""
