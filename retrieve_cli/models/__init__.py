"""Models on this machine and elsewhere: encoders, rerankers, their runtimes, and where embedding runs."""
