"""Benchmarks of sweeps, stores and imports."""
