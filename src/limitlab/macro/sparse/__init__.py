"""Sparse targets of the hypercube: the dimension-free flow."""
