"""Plain mathematics that knows nothing of learning."""
