"""Simulated correct kernels in NumPy, to calibrate budgets and to test the oracle. The package is not installed."""
