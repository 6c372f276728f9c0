"""`retrieve`: build a hybrid index from a catalog or a folder of documents, and query it, offline and fast."""

__version__ = "0.1.0"
