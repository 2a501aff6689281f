"""Dynamical mean-field theory of descent on a fixed data set."""
