"""Wide committees: the law of the units as a cloud."""
