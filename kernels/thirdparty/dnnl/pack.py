"""oneDNN's primitives by its own interface, as Debian ships them: `sh .ci/fetch dnnl`.

Those that torch calls, of the version that comes with it, are in the pack `onednn`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fuzz import AnyOrder, Capabilities, CKernel, Contract, Within

__all__ = ["KERNELS"]

_HERE = Path(__file__).resolve().parent
_FETCHED = _HERE / "fetched" / "x86_64" / "usr"
_LIBRARIES = _FETCHED / "lib" / "x86_64-linux-gnu"
# oneDNN's guide has the formula of each primitive, and says that 16 bits are accumulated in f32; not in which order,
# nor how accurate its functions are, nor which sign a zero has. Its source makes exponentials below the least normal
# number zero.
_FREE = Contract(
    sums={"n": AnyOrder()}, mean="reciprocal", zeros="any", absolute={"erf": 4.0}, platform="none",
    accuracy={"exp": Within(4.0, flushes=True), "log": 4.0, "rsqrt": 2.0, "erf": 4.0, "tanh": 4.0},
)  # fmt: skip
_GATED = replace(_FREE, algorithm={"s": ("formula", "quotient")}, points={"h": "input"})
_PRODUCTS = replace(_FREE, sums={"k": AnyOrder()}, addend="either")
_ROWS = Capabilities(empty=False)
# Factors and statistics are f32 whatever the rows are.
_NORM = replace(_ROWS, takes=("weight", "bias", "mean"), mixed=(("weight", ("f32",)), ("bias", ("f32",))))
_OPS: dict[str, tuple[Contract, Capabilities]] = {
    "layer_norm": (_FREE, _NORM),
    "softmax": (_FREE, _ROWS),
    "softmax_backward": (_FREE, _ROWS),
    "log_softmax": (_FREE, _ROWS),
    "gelu": (_FREE, _ROWS),
    "gelu_backward": (_FREE, _ROWS),
    "gelu_tanh": (_FREE, _ROWS),
    "gelu_tanh_backward": (_FREE, _ROWS),
    "silu_mul": (_GATED, _ROWS),
    "row_sum": (_FREE, _ROWS),
    "row_mean": (_FREE, _ROWS),
    "row_max": (_FREE, _ROWS),
    "matmul": (_PRODUCTS, replace(_ROWS, takes=("bias",), max={"k": 4096})),
}
# The most that it may use of a processor, and the dtype, by what the kernel is called.
_WAYS = {"f32": ("all", "f32"), "bf16": ("all", "bf16"), "avx2": ("avx2", "f32")}


def _kernel(op: str, way: str) -> CKernel:
    (contract, able), (most, dtype) = _OPS[op], _WAYS[way]
    # The processor's instruction for bf16 makes zero of subnormal numbers.
    held = replace(contract, denormals="flush") if dtype == "bf16" else contract
    return CKernel(
        f"dnnl-{op.replace('_', '-')}-{way}", op, _HERE / "primitives.c", contract=held,
        capabilities=replace(able, dtypes=(dtype,)), flags=(f"-DMOST=dnnl_cpu_isa_{most}",),
        include=(_FETCHED / "include",), fetch="sh .ci/fetch dnnl", keeps=("threads",),
        libraries=(_LIBRARIES / "libOpenCL.so.1", _LIBRARIES / "libdnnl.so.2"),
    )  # fmt: skip


KERNELS = tuple(_kernel(op, way) for op in _OPS for way in _WAYS)
