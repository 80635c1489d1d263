"""The model: encoder, pooling, heads and jigsaw, composed as the paper's five methods."""
