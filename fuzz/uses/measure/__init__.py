"""Measuring what a kernel calculates of which nothing is declared, by inputs that are designed for it."""
