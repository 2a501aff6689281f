"""Questions about teachers with several directions."""
