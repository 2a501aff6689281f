"""Row by row: the field of every row of a pool under a fit on a random subset that does not hold it."""
