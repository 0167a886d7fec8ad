"""Seven kernels with mistakes that people make, as a test of theirs sees them and as we do: the table of the docs."""
