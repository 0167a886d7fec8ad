"""Checking kernels in a test suite: `fuzz.check`, and the kernels of a pack as tests."""
