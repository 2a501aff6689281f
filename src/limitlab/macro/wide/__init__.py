"""Over-parametrised phase retrieval: the flow of A = WW^T/m."""
