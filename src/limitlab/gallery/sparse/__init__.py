"""Sparse targets."""
