"""Descent on a fixed data set."""
