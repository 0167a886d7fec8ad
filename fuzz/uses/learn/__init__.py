"""Learning which contracts fit a kernel of which nothing is known."""
