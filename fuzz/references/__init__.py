"""References: plain functions in torch, NumPy or JAX that compute what a kernel should compute."""
