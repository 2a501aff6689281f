"""Learning on inputs of any spectrum, in raw units."""
