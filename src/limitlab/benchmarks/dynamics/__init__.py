"""Benchmarks of learning in time."""
