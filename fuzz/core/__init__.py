"""From a case to a verdict: cases are drawn, kernels are built and run on them, and the outcomes are judged."""
