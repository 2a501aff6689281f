"""Bayes-optimal learning and message passing of teachers with several directions."""
