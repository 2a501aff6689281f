"""Descent on fixed data."""
