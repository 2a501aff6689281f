"""Figures as the browser gets them, and films."""
