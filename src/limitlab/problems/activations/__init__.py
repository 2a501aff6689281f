"""Activations: functions of one field, and their averages."""
