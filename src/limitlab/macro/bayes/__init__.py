"""Generalised linear models: the best possible estimate, and message passing."""
