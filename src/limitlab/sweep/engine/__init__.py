"""Where the points of a sweep are computed."""
