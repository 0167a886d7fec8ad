"""Tasks: kernels, the formulas or references that say what they should compute, and the inputs they are judged on."""
