"""Functions of torch, NumPy and JAX that say what a kernel should compute."""
