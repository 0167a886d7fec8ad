"""Kernels whose tensors are of formats of 8 bits: in C, of NumPy and of torch, right ones and ones with bugs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fuzz.tests.conftest import copy_headers

PACK = """
from pathlib import Path
from fuzz import Capabilities, CKernel, Contract, PythonKernel

HERE = Path(__file__).parent
BYTES = Capabilities(
    dtypes=("e4m3fn", "e5m2"), strides="any", takes=("weight",), mixed=(("weight", ("x", "f32")), ("y", ("x", "f32")))
)
SATURATES = Contract(saturate=True)
KERNELS = (
    *(CKernel(path.stem, "rms_norm", path, capabilities=BYTES) for path in sorted(HERE.glob("*.c"))),
    *(
        CKernel(f"{path.stem}-saturating", "rms_norm", path, "any", SATURATES, BYTES, ("-DSATURATES",))
        for path in sorted(HERE.glob("right.c"))
    ),
    PythonKernel("arrays", "rms_norm", HERE / "arrays.py", "numpy", capabilities=BYTES),
    PythonKernel("tensors", "rms_norm", HERE / "tensors.py", "torch", SATURATES, BYTES, devices=("cpu",)),
)
"""
C = """
#include "elements.h"

static real kept(kf_dtype dtype, real value) {
#ifdef SATURATES
    const real most = dtype == KF_E4M3FN ? 448 : dtype == KF_E5M2 ? 57344 : 0x1.fffffep127f;
    return value > most ? most : value < -most ? -most : value;
#else
    (void)dtype;
    return value;
#endif
}

int kf_rms_norm(const kf_rms_norm_call *call) {
    if (!has_elements(&call->x)) return KF_OK;
    row r = first_row(&call->x, call->axis);
    do {
        real squares = 0;
        for (int64_t i = 0; i < r.n; i++) {
            const real x = load(&call->x, at(&r, &call->x, i));
            squares += x * x;
        }
        const real scale = 1 / root(squares / (real)r.n + call->eps);
        for (int64_t i = 0; i < r.n; i++) {
            const real x = load(&call->x, at(&r, &call->x, i));
            real y = x * scale * scale_of(&r, &call->weight, i, 0);
            BUG
            store(&call->y, at(&r, &call->y, i), kept(call->y.dtype, y));
        }
    } while (next_row(&r));
    return KF_OK;
}
"""
BUGS: Mapping[str, str] = {
    "right": "",
    "tail": "if (call->x.dtype == KF_E4M3FN && i >= r.n - r.n % 4) y = x;",
    "mistaken": "if (call->y.dtype == KF_E4M3FN) y = y > 240 ? 240 : y < -240 ? -240 : y;",
    "clamped": "if (call->y.dtype == KF_E4M3FN) y = y > 448 ? 448 : y < -448 ? -448 : y;",
}
"""What is done to an element before it is stored. 'mistaken' takes e4m3fn for e4m3, whose largest number is 240;
'clamped' does not say that it saturates, and NaN is expected."""
ARRAYS = """
import numpy as np


def rms_norm(x, y, weight=None, *, eps):
    wide = x.astype(np.float32)
    scale = np.float32(1) / np.sqrt((wide * wide).mean(axis=-1, keepdims=True, dtype=np.float32) + np.float32(eps))
    h = wide * scale
    with np.errstate(all="ignore"):
        y[...] = (h if weight is None else h * weight.astype(np.float32)).astype(y.dtype)
"""
TENSORS = """
import torch


def rms_norm(x, y, weight=None, *, eps):
    wide = x.float()
    h = wide / (wide.square().mean(-1, keepdim=True) + eps).sqrt()
    most = torch.finfo(y.dtype).max
    y.copy_((h if weight is None else h * weight.float()).clamp(-most, most).to(y.dtype))
"""


def write_byte_pack(folder: Path, *bugs: str) -> Path:
    """The pack, with the right kernels, or with a C kernel of each of these bugs beside those in Python."""
    copy_headers(folder)
    for name in bugs or ("right",):
        (folder / f"{name}.c").write_text(C.replace("BUG", BUGS[name]))
    (folder / "pack.py").write_text(PACK)
    (folder / "arrays.py").write_text(ARRAYS)
    (folder / "tensors.py").write_text(TENSORS)
    return folder
