"""Points where they matter."""
