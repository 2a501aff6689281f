"""Results: the schema of the labelled Dataset, comparison, storage."""
