"""Targets of a few signs."""
