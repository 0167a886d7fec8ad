"""Sums that begin with what nobody has set: right wherever that happens to be 0. One is set, and right."""

from pathlib import Path

from fuzz import Capabilities, CKernel, Contract, Op, Operand
from fuzz import formula as f


def sdot(a, b):
    """y = sum of a b along each row."""
    return {"y": f.dot(a, b, "n")}


OPS = (Op(sdot, inputs=(Operand("a", "... n"), Operand("b", "... n")), outputs=(Operand("y", "..."),)),)
HERE = Path(__file__).parent
KERNELS = tuple(
    CKernel(name, "sdot", HERE / "sdot.c", contract=Contract(), flags=("-ffp-contract=off", f"-D{name.upper()}"))
    for name in ("right", "register", "scalar", "stack", "heap", "scratch")
) + (
    CKernel("group", "grouped_matmul", HERE / "group.c", capabilities=Capabilities(), flags=("-ffp-contract=off",)),
)  # fmt: skip
