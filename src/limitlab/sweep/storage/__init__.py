"""Where the points of a sweep are kept."""
