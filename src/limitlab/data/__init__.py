"""A user's own arrays: pools of labelled rows, and what can be said of learning on random subsets of them."""
