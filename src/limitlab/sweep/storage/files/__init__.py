"""The files of a store: folders that are kept to, records, segments, and points as bytes."""
