"""Correct kernels of a formula in NumPy, to calibrate budgets and to test the oracle with. Not installed."""
