"""gelu, its approximation and silu_mul with their gradients in C, as declared."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from fuzz import Capabilities, CKernel, Contract

__all__ = ["ALIASES", "KERNELS"]

_C = Path(__file__).resolve().parent / "c"

# Multiply and add are two roundings in the scalar parts; compilers fuse them where nobody forbids it.
_FLAGS = ("-ffp-contract=off",)
_DTYPES = ("f32", "f16", "bf16")

# Every element is made of its own alone: all laws hold that say something of a function which is not linear.
_LAWS = (
    "rerun", "row_permutation", "batch_subset", "batch_append", "layout", "in_place", "surroundings", "alignment",
)  # fmt: skip

# V_EXP_ULP of kernels/common/vector.h: 0.9876 at most, over all floats with AVX2.
_EXP = {"exp": 1.0}
ALIASES = {
    "gelu": (("y", "x"),),
    "gelu_tanh": (("y", "x"),),
    "silu_mul": (("y", "gate"), ("y", "up")),
    "gelu_backward": (("dx", "dy"), ("dx", "x")),
    "gelu_tanh_backward": (("dx", "dy"), ("dx", "x")),
    "silu_mul_backward": (("dgate", "gate"), ("dup", "up")),
}
_CONTRACTS = {
    "silu_mul": Contract(algorithm={"h": "quotient"}),
    "silu_mul_backward": Contract(algorithm={"s": "quotient"}),
}
_BY_VECTORS = {
    "gelu_tanh": Contract(algorithm={"u": "square", "y": "quotient"}, accuracy=_EXP),
    "silu_mul": Contract(algorithm={"h": "quotient"}, accuracy=_EXP),
}


def _elements(op: str) -> Capabilities:
    aliases = ALIASES[op]
    mixed = tuple(
        (name, ("x" if "gelu" in op else "gate", "f32")) for name in dict.fromkeys(each for each, _ in aliases)
    )
    # Of several outputs each may lie anywhere that is declared, and elsewhere too.
    outside: Literal["undefined", "rejects"] = "undefined" if op == "silu_mul_backward" else "rejects"
    return Capabilities(
        dtypes=_DTYPES, axis="any", strides="any", aliases=aliases, overlap=aliases, mixed=mixed, outside=outside
    )


def _name(op: str, kind: str) -> str:
    return f"{op.replace('_', '-')}-{kind}"


KERNELS: tuple[CKernel, ...] = (
    *(
        CKernel(
            _name(op, "generic"), op, _C / f"{op}.c", "any", _CONTRACTS.get(op, Contract()), _elements(op), _FLAGS,
            laws=_LAWS, summary="one element at a time; any axis and strides",
        )
        for op in ALIASES
    ),
    *(
        CKernel(
            _name(op, isa), op, _C / f"{op}_vector.c", isa, contract,
            Capabilities(axis="last", strides="rows", aliases=ALIASES[op], outside="rejects"), _FLAGS, laws=_LAWS,
            summary="by vectors, the exponential a polynomial",
        )
        for op, contract in _BY_VECTORS.items() for isa in ("avx2", "neon", "sve")
    ),
)  # fmt: skip
