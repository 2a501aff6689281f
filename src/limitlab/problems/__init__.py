"""What is learned: frozen descriptions, no loops."""
