"""Averages over normal variables."""
