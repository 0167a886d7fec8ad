"""rope of either pairing and its gradients in C, as declared."""

from __future__ import annotations

from pathlib import Path

from fuzz import Capabilities, CKernel, Contract

__all__ = ["KERNELS"]

_C = Path(__file__).resolve().parent / "c"

# Multiply and add are two roundings in the scalar parts; compilers fuse them where nobody forbids it.
_FLAGS = ("-ffp-contract=off",)
_OPS = {"rope": "x", "rope_backward": "dy", "rope_interleaved": "x", "rope_interleaved_backward": "dy"}
_LAWS = ("rerun", "layout", "in_place", "surroundings", "alignment")


def _elements(x: str) -> Capabilities:
    y = "y" if x == "x" else "dx"
    tables = tuple((name, (x, "f32")) for name in ("cos", "sin"))
    return Capabilities(
        dtypes=("f32", "f16", "bf16"), strides="any", aliases=((y, x),), overlap=((y, x),), mixed=tables
    )


KERNELS: tuple[CKernel, ...] = (
    *(
        CKernel(
            f"{op.replace('_', '-')}-generic", op, _C / f"{op}.c", "any", Contract(), _elements(x), _FLAGS, laws=_LAWS,
            summary="one pair at a time; any strides",
        )
        for op, x in _OPS.items()
    ),
    *(
        CKernel(
            f"rope-{isa}", "rope", _C / "rope_vector.c", isa, Contract(),
            Capabilities(strides="rows", aliases=(("y", "x"),)), _FLAGS, laws=_LAWS, summary="both halves by vectors",
        )
        for isa in ("avx2", "neon", "sve")
    ),
)  # fmt: skip
