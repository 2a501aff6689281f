"""Clouds of units: distances, potentials, minima."""
