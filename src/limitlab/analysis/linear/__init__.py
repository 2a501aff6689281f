"""Generalised linear models: thresholds, phases, penalties."""
