"""Clouds of units on mixtures."""
