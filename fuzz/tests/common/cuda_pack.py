"""A kernel in CUDA C++ that is right, what is broken in it, and the pack of each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fuzz.core.adapters.prototyped_kernel import CudaKernel
from fuzz.tasks.beginning.declared import PROTOTYPE, sample

CUDA = sample("cuda")
BREAKS: Mapping[str, tuple[str, str]] = {
    "strays": ("y[i] /= total;", "y[i + (n > 8)] = y[i] / total;"),
    "far": ("y[i] /= total;", "y[i + (n > 8 ? 1ll << 40 : 0)] = y[i] / total;"),
    "hangs": ("y[i] /= total;", "do *(volatile float *)&y[i] = y[i] / total; while (n > 8);"),
}
"""What is replaced, and by what."""


def cuda_kernel(folder: Path, old: str = "", new: str = "", **declared: object) -> CudaKernel:
    """The kernel, or one in which something is replaced."""
    folder.mkdir(exist_ok=True)
    assert not old or CUDA.count(old) == 1, old
    (folder / "mine.cu").write_text(CUDA.replace(old, new) if old else CUDA)
    prototype = declared.pop("prototype", PROTOTYPE)
    return CudaKernel("mine", "softmax", folder / "mine.cu", prototype, **declared)  # type: ignore[arg-type]
