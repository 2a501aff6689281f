"""Message passing."""
