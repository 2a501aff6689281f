"""Learning curves of data that ship with scikit-learn."""
