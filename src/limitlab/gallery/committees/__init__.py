"""One-pass SGD of committees."""
