"""References with heads in groups, lengths and squares, as attention has them: what is read, and what is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import fuzz
from fuzz.references.derive import derive


def repeated(q, k, v, sinks):  # type: ignore[no-untyped-def]
    """Attention of grouped heads, with one more score for each head that takes a share away."""
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    s = torch.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5
    s = torch.cat([s, sinks[None, :, None, None].expand(*s.shape[:3], 1)], -1)
    return torch.einsum("bhqk,bhkd->bhqd", s.softmax(-1)[..., :-1], v)


def enabled(q: Any, k: Any, v: Any) -> Any:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


@pytest.mark.parametrize(
    ("reference", "shapes"),
    [
        (repeated, "q=b 2h s d, k=b h t d, v=b h t d, sinks=2h"),
        (repeated, "q=b 3h s d, k=b h s d, v=b h s d, sinks=3h"),
        (enabled, "q=b 4h s d, k=b h s d, v=b h s d"),
    ],
)
def test_heads_in_groups_are_read(reference: Any, shapes: str) -> None:
    assert derive(reference, shapes).op.operand("q").axes[1].startswith("h_")


def test_heads_that_are_taken_in_turn_are_wrong() -> None:
    q, k = torch.randn(1, 6, 4, 8), torch.randn(1, 2, 4, 8)
    right = enabled(q, k, k)
    fuzz.assert_right(right, enabled, (q, k, k))
    in_turn = torch.nn.functional.scaled_dot_product_attention(q, *[k.repeat(1, 3, 1, 1)] * 2, is_causal=True)
    with pytest.raises(AssertionError, match="elements wrong"):
        fuzz.assert_right(in_turn, enabled, (q, k, k))


def lengthened(x, lens):  # type: ignore[no-untyped-def]
    return torch.where(torch.arange(x.shape[1]) < lens[:, None] + 1, x, 0.0).sum(-1)


def averaged(x, seq_lens):  # type: ignore[no-untyped-def]
    inside = torch.arange(x.shape[1]) < seq_lens[:, None]
    return torch.where(inside, x, 0.0).sum(-1) / seq_lens.clamp(min=1)


def windowed(x, qpos, kpos):  # type: ignore[no-untyped-def]
    near = (kpos <= qpos[:, None]) & (qpos[:, None] - kpos < 4)
    return x.masked_fill(~near, -1e9).softmax(-1)


def centred(x, centre):  # type: ignore[no-untyped-def]
    return torch.where(torch.arange(x.shape[1]) < centre[:, None] + 1.5, x, 0.0).sum(-1)


@pytest.mark.parametrize(
    ("reference", "shapes", "integers"),
    [
        (lengthened, "x=b t, lens=b", {"lens"}),
        (averaged, "x=b t, seq_lens=b", {"seq_lens"}),
        (windowed, "x=s t, qpos=s, kpos=t", {"qpos", "kpos"}),
        (centred, "x=b t, centre=b", set()),
    ],
)
def test_lengths_are_integers_whatever_else_is_made_of_them(reference: Any, shapes: str, integers: set[str]) -> None:
    assert {each.name for each in derive(reference, shapes).op.inputs if each.integers} == integers


def rotated(x, pos):  # type: ignore[no-untyped-def]
    angle = pos[:, None].float() * 10000.0 ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    return torch.cat([x[:, ::2] * angle.cos(), x[:, 1::2] * angle.sin()], -1)


def test_positions_that_are_calculated_with_are_read_and_a_line_asks_where_they_are_drawn_as_floats() -> None:
    assert "pos drawn as floats: give example_inputs" in derive(rotated, "x=s 2h, pos=s").said
    given = torch.randn(6, 8), torch.arange(6)
    assert derive(rotated, example_inputs=given).op.operand("pos").integers


def alike(x: Any, doc: Any) -> Any:
    return x.masked_fill(doc[:, None] != doc, -1e9).softmax(-1)


def test_a_square_and_its_rows_and_columns_have_one_extent() -> None:
    found = derive(alike, "x=s s, doc=s", dtypes={"doc": "int64"}).op
    assert len({*found.operand("x").axes, *found.operand("doc").axes}) == 3
    rng = np.random.default_rng(0)
    x, doc = rng.normal(size=(4, 4)).astype(np.float32), np.array([0, 0, 1, 1])
    fuzz.assert_right(alike(torch.tensor(x), torch.tensor(doc)), alike, (torch.tensor(x), torch.tensor(doc)))
