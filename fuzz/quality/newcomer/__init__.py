"""Seven kernels with common mistakes, as a user's test judges them and as we do: the table of the docs."""
