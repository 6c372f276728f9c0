"""OpenSearch: an index per part of a generation, term weights as rank features, vectors by its k-NN plugin."""
