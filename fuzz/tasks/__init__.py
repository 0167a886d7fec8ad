"""Tasks: kernels, what says what they should compute, and the data that they are judged on."""
