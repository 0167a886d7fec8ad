"""How fast kernels are, on memory that the call before did not touch, beside others in the same run."""
