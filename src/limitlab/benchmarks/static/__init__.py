"""Benchmarks of fixed points and message passing."""
