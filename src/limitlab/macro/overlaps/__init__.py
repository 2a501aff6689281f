"""Overlap equations of one-pass SGD: in the limit, with noise, at finite size."""
