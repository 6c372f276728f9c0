"""Texts to vectors: one file a kind (hashed, onnx, torch), and the parts that the transformer kinds share."""
