"""A kernel in CUDA C++ that is right, what is broken in it, and the pack of each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fuzz.adapters.cuda_kernel import CudaKernel
from fuzz.uses.beginning.samples import CUDA, PROTOTYPE

BREAKS: Mapping[str, tuple[str, str, str]] = {
    "tail": ("i < n; i += blockDim.x) total +=", "i < n / 4 * 4; i += blockDim.x) total +=", "FAIL_"),
    "race": ("    __syncthreads();\n    const float found", "    const float found", ""),
    "strays": ("y[i] /= total;", "y[i + (n > 8)] = y[i] / total;", "FAIL_"),
    "far": ("y[i] /= total;", "y[i + (n > 8 ? 1ll << 40 : 0)] = y[i] / total;", "CRASH"),
    "hangs": ("y[i] /= total;", "while (n > 8 && threadIdx.x < 9999) y[i] /= total;", "TIMEOUT"),
}
"""What is replaced, by what, and as what that is found."""


def cuda_kernel(folder: Path, old: str = "", new: str = "", **declared: object) -> CudaKernel:
    """The kernel, or one in which something is replaced."""
    folder.mkdir(exist_ok=True)
    assert not old or CUDA.count(old) == 1, old
    (folder / "mine.cu").write_text(CUDA.replace(old, new) if old else CUDA)
    prototype = declared.pop("prototype", PROTOTYPE)
    return CudaKernel("mine", "softmax", folder / "mine.cu", prototype, **declared)  # type: ignore[arg-type]
