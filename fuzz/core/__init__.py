"""A case becomes a verdict: cases are drawn, kernels built and run on them, and their results judged."""
