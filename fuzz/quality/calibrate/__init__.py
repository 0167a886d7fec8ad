"""Calibration: correct kernels of any contract are searched like others, and none may be accused."""
