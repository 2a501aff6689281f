"""Convex fits in the limit of many samples and dimensions."""
