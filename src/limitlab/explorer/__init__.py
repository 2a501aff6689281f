"""The explorer: a local web page on which theory and simulation meet. It computes nothing: it asks `limitlab.jobs`."""
