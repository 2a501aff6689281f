"""Labelled inputs: flows of the law of the units."""
