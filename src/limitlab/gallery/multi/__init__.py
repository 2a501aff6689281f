"""Teachers with several directions."""
