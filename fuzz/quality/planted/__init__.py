"""Bugs planted in correct kernels, by which explanations and the reach of a search are measured. It is a pack."""
