"""rope of either pairing and its gradients in Triton and torch, as declared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fuzz import Capabilities, PythonKernel

__all__ = ["KERNELS"]

_TRITON = Path(__file__).resolve().parent / "triton" / "rope.py"
_TORCH = Path(__file__).resolve().parent / "torch" / "rope.py"
_OPS = {"rope": "x", "rope_backward": "dy", "rope_interleaved": "x", "rope_interleaved_backward": "dy"}


def _able(x: str) -> Capabilities:
    tables = tuple((name, (x, "f32")) for name in ("cos", "sin"))
    aliases = (("y" if x == "x" else "dx", x),)
    return Capabilities(dtypes=("f32", "f16", "bf16"), strides="any", aliases=aliases, mixed=tables)


def _name(op: str, kind: str) -> str:
    return f"{op.replace('_', '-')}-{kind}"


KERNELS: tuple[PythonKernel, ...] = (
    *(
        PythonKernel(
            _name(op, "heads"), op, _TRITON, "triton",
            capabilities=replace(_able(x), strides="contiguous", max={"r": 4096}), laws=("rerun", "surroundings"),
            summary="a program for each head",
        )
        for op, x in _OPS.items()
    ),
    *(
        PythonKernel(_name(op, "eager"), op, _TORCH, "torch", capabilities=_able(x), summary="elementary operations")
        for op, x in _OPS.items()
    ),
)  # fmt: skip
