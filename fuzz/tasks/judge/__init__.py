"""Judging solutions of a problem: untrusted kernels, held against a function that says what they should compute."""
