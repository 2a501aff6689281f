"""In the limit: predict, and one file per limit."""
