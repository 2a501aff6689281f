"""What is seen: microstates, macrostates, and the map from one to the other."""
