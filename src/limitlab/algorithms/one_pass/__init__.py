"""A fresh sample at every step."""
