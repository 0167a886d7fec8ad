"""A kernel of WebAssembly that does nothing: `.ci/setup` installs what it needs, as tests need it."""

from pathlib import Path

from fuzz import CKernel

KERNELS = (CKernel("idle", "rms_norm", Path(__file__).parent / "idle.c", isa="relaxed-simd"),)
