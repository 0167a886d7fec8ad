"""Sums that begin with what nobody has set: right wherever that happens to be 0. One is set, and right."""

from pathlib import Path

from fuzz import CKernel, Contract, Op, Operand
from fuzz import formula as f
from fuzz.formula import Node, Outputs


def sdot(a: Node, b: Node) -> Outputs:
    """y = sum of a b along each row."""
    return {"y": f.dot(a, b, "n")}


OPS = (Op(sdot, inputs=(Operand("a", "... n"), Operand("b", "... n")), outputs=(Operand("y", "..."),)),)
HERE, EXACTLY = Path(__file__).parent, "-ffp-contract=off"
_SUMS = ("right", "register", "scalar", "stack", "heap", "scratch")
KERNELS = (
    *(
        CKernel(name, "sdot", HERE / "sdot.c", contract=Contract(), flags=(EXACTLY, f"-D{name.upper()}"))
        for name in _SUMS
    ),
    CKernel("group", "grouped_matmul", HERE / "group.c", flags=(EXACTLY,)),
)
