"""Correct kernels of a formula, to calibrate budgets with: in NumPy here, and in C by `emission`."""
