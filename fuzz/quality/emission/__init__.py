"""Kernels in C, written from formulas: correct ones, to calibrate with."""
