"""XNNPACK's operators, as Debian ships them: `sh .ci/fetch xnnpack`."""

from __future__ import annotations

from pathlib import Path

from fuzz import AnyOrder, Capabilities, CKernel, Contract, Within

__all__ = ["KERNELS"]

_HERE = Path(__file__).resolve().parent
_FETCHED = _HERE / "fetched" / "x86_64" / "usr"
_LIBRARIES = _FETCHED / "lib" / "x86_64-linux-gnu"
# XNNPACK documents neither the order of its sums nor how accurate its functions are. Its source says that exponentials
# below the least normal number are zero, and it asks its threads to flush subnormal numbers.
_SUMS = {"softmax": "n", "silu_mul": "", "matmul": "k"}
_ALGORITHMS = {"softmax": {"y": "reciprocal"}, "silu_mul": {"s": ("formula", "quotient")}}


def _kernel(op: str) -> CKernel:
    sums = {_SUMS[op]: AnyOrder()} if _SUMS[op] else {}
    accuracy = {"exp": Within(4.0, flushes=True), "divide": 2.0}
    contract = Contract(
        sums=sums, accuracy=accuracy, denormals="flush", algorithm=_ALGORITHMS.get(op, {}), addend="either"
    )
    return CKernel(
        f"xnnpack-{op.replace('_', '-')}", op, _HERE / "operators.c", contract=contract,
        capabilities=Capabilities(empty=False, takes=("bias",) if op == "matmul" else ()),
        include=(_FETCHED / "include",), fetch="sh .ci/fetch xnnpack",
        libraries=tuple(_LIBRARIES / f"lib{name}.so.0" for name in ("XNNPACK", "pthreadpool", "cpuinfo")),
    )  # fmt: skip


KERNELS = tuple(map(_kernel, _SUMS))
