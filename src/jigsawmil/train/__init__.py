"""Fitting one model: the loop, the weight of the jigsaw, and what is kept on disk."""
