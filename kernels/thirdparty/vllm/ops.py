"""The op of vLLM's that is no kernel elsewhere."""

from __future__ import annotations

from fuzz import Op, Operand
from fuzz import formula as f

__all__ = ["OPS"]


def merge_attn_states(prefix: f.Node, prefix_lse: f.Node, suffix: f.Node, suffix_lse: f.Node) -> f.Outputs:
    """The attention over two sets of keys from those over each, with the logarithms of their sums of exponentials:
    plus infinity is taken for minus infinity, that of no keys, and of two such sets the result is 0."""
    inf = float("inf")
    left = f.where(prefix_lse == inf, -inf, prefix_lse)
    right = f.where(suffix_lse == inf, -inf, suffix_lse)
    most = f.where(left > right, left, right)
    share_left, share_right = f.exp(left - most), f.exp(right - most)
    mass = share_left + share_right
    merged = prefix * (share_left / mass) + suffix * (share_right / mass)
    return {
        "y": f.where(most == -inf, 0.0, merged),
        "lse": f.where(most == -inf, -inf, f.log(mass) + most),
    }


_ROW, _EACH = "... n", "..."
OPS = (
    Op(
        merge_attn_states,
        inputs=(
            Operand("prefix", _ROW), Operand("prefix_lse", _EACH, dtype="f32"),
            Operand("suffix", _ROW), Operand("suffix_lse", _EACH, dtype="f32"),
        ),
        outputs=(Operand("y", _ROW), Operand("lse", _EACH, dtype="f32")), least={"n": 1},
    ),
)  # fmt: skip
