"""Bags, labels, splits and phantoms: what a study is made of, before any graph is built."""
