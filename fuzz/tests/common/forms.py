"""A shared library with functions in the forms that libraries have them in, and the pack that calls each."""

from __future__ import annotations

import subprocess
from pathlib import Path

from fuzz.core.adapters.prototyped_kernel import SharedKernel

_SOURCE = Path(__file__).with_name("forms.c")
FORM = "void {}(const float *x, float *y, int n)"
"""The prototype of most of them."""
RIGHT = """
    SharedKernel("softmax", "softmax", "libforms.so", "void softmax_f32(const float *x, float *y, int n)"),
    SharedKernel("f64", "softmax", "libforms.so",
                 "void softmax_f64(const double *restrict in, double *out, size_t len)"),
    SharedKernel("norm", "rms_norm", "libforms.so",
                 "int norm_rows(const float *x, const float *weight, float *y, int64_t x_stride, int32_t y_stride,"
                 "              size_t rows, size_t n, float epsilon)", returns="status"),
    SharedKernel("sum", "row_sum", "libforms.so", "float sum_f32(const float *x, int n)"),
    SharedKernel("gelu", "gelu", "libforms.so", "void gelu_bf16(long count, const void *src, void *dst, double factor)",
                 arguments={"count": "x.size", "factor": "1.0"}, capabilities=Capabilities(dtypes=("bf16",))),
    SharedKernel("product", "matmul", "libforms.so",
                 "void product(int m, int n, int k, const float *a, int lda, const float *b, int ldb, float *c,"
                 "             int ldc)"),
"""
"""The declarations of those that are right."""


def built(folder: Path, name: str = "libforms.so", prefix: str = "", flags: tuple[str, ...] = ()) -> Path:
    """The library in that folder; `prefix` is that of the programs of another architecture."""
    folder.mkdir(exist_ok=True)
    made = folder / name
    words = [f"{prefix}gcc", "-O2", "-shared", "-fPIC", *flags, str(_SOURCE), "-o", str(made), "-lm"]
    subprocess.run(words, check=True, capture_output=True)
    return made


def pack(folder: Path, declarations: str) -> Path:
    """The pack of these kernels in that folder."""
    folder.mkdir(exist_ok=True)
    text = f"from pathlib import Path\n\nfrom fuzz import Capabilities, SharedKernel\n\nKERNELS = ({declarations})\n"
    (folder / "pack.py").write_text(text)
    return folder


def softmax(library: Path, function: str = "softmax_f32") -> SharedKernel:
    """A kernel of softmax in a library."""
    return SharedKernel("mine", "softmax", library, FORM.format(function))
