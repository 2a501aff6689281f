"""Verbs as jobs: worker processes that stay warm, a queue with fair turns, progress, cancelling, and a cache."""
