"""The op of FlashInfer's that is no kernel elsewhere."""

from __future__ import annotations

from fuzz import Op, Operand
from fuzz import formula as f

__all__ = ["OPS"]


def merge_state(v_a: f.Node, s_a: f.Node, v_b: f.Node, s_b: f.Node) -> f.Outputs:
    """The attention over two sets of keys from those over each: v = (v_a 2^s_a + v_b 2^s_b) / (2^s_a + 2^s_b), s = log2
    of that sum."""
    most = f.where(s_a > s_b, s_a, s_b)
    share_a, share_b = f.exp2(s_a - most), f.exp2(s_b - most)
    mass = share_a + share_b
    return {"v": (v_a * share_a + v_b * share_b) / mass, "s": f.log2(mass) + most}


_V, _S = "... n", "..."
OPS = (
    Op(
        merge_state,
        inputs=(
            Operand("v_a", _V), Operand("s_a", _S, dtype="f32"), Operand("v_b", _V), Operand("s_b", _S, dtype="f32"),
        ),
        outputs=(Operand("v", _V), Operand("s", _S, dtype="f32")), least={"n": 1},
    ),
)  # fmt: skip
