"""Engine `pgvector`: indexes in PostgreSQL with the extension pgvector."""
