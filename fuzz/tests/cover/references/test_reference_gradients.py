"""Gradients are read from references: from those of a function, from autograd within one, and from backwards by hand.
Deriving holds each formula against torch's autograd in float64."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from fuzz.references.backward import backward
from fuzz.references.derive import derive
from fuzz.references.dims import UnreadableError

F = torch.nn.functional


def softmax(x: Any) -> Any:
    """Weights of each row."""
    return torch.softmax(x, -1)


def rms_norm(x: Any, w: Any) -> Any:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def layer_norm(x: Any, w: Any, b: Any) -> Any:
    return F.layer_norm(x, (x.shape[-1],), w, b)


def group_norm(x: Any, w: Any, b: Any) -> Any:
    return F.group_norm(x, 2, w, b)


def silu_mul(x: Any, gate: Any) -> Any:
    return F.silu(x) * gate


def cross_entropy(x: Any, t: Any) -> Any:
    return F.cross_entropy(x, t)


def losses(x: Any, t: Any) -> Any:
    return F.cross_entropy(x, t, reduction="none")


def linear(x: Any, w: Any, b: Any) -> Any:
    return F.linear(x, w, b)


def conv(x: Any, w: Any, b: Any) -> Any:
    return F.conv1d(x, w, b, padding=1)


def grouped(x: Any, w: Any) -> Any:
    return F.conv1d(x, w, padding=1, groups=x.shape[1])


def attention(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def embedding(table: Any, t: Any) -> Any:
    return F.embedding(t, table)


def spread(x: Any) -> Any:
    return x.std(-1), x.amax(-1)


def gelu(x: Any) -> Any:
    return F.gelu(x)


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("reference", "shapes", "fixed"),
    [
        (rms_norm, "x=... n, w=n", {}),
        (layer_norm, "x=... n, w=n, b=n", {}),
        (group_norm, "x=b c n, w=c, b=c", {}),
        (silu_mul, "x=... n, gate=... n", {}),
        (cross_entropy, "x=b n, t=b", {}),
        (losses, "x=b n, t=b", {}),
        (linear, "x=b m k, w=n k, b=n", {}),
        (conv, "x=b c n, w=m c k, b=m", {"k": 3}),
        (grouped, "x=b c n, w=c one k", {"k": 3, "one": 1}),
        (attention, "q=b h i d, k=b h j d, v=b h j d", {}),
        (embedding, "table=v d, t=n", {}),
        (spread, "x=b n", {}),
        (gelu, None, {}),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_the_gradient_of_a_function_is_read(
    reference: Callable[..., Any], shapes: str | None, fixed: Mapping[str, int]
) -> None:
    found = derive(backward(reference), shapes, fixed=fixed)
    floats = [each.name for each in found.op.inputs if not each.integers]
    returned = [each.name for each in found.op.outputs]
    assert returned == [f"d{name}" for name in inspect.signature(reference).parameters if name in floats]
    assert found.agreement.sets == 3


def test_its_text_is_that_of_any_formula() -> None:
    found = derive(backward(softmax), "x=... n")
    assert found.op.name == "softmax_backward"
    assert [(each.name, each.dims) for each in found.op.inputs] == [("x", "... n"), ("dy", "... n")]
    assert found.formula.text.splitlines()[1:] == [
        '    """Gradients of softmax."""',
        '    most = f.greatest(x, "n")',
        "    e = f.exp(x - most)",
        '    mass = f.total(e, "n")',
        "    softmax = e / mass",
        "    t = dy * softmax",
        '    total = f.total(t, "n")',
        '    return {"dx": t - softmax * total}',
    ]


def test_gradients_of_outputs_have_names_that_nothing_else_has() -> None:
    def two(x: Any, y: Any) -> Any:
        high = x + y
        low = x * y
        return high, low

    assert [*inspect.signature(backward(two)).parameters] == ["x", "y", "dhigh", "dlow"]
    assert [*inspect.signature(backward(lambda x, y: x * y)).parameters] == ["x", "y", "dout"]
    assert [each.name for each in derive(backward(two, by=["y"]), "x=b n, y=b n").op.outputs] == ["dy"]


class Twice(torch.autograd.Function):  # type: ignore[misc]
    """Its backward is another one than autograd's."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        x, w = ctx.saved_tensors
        return 2.0 * (dy * w), (dy * x).sum(0)


@pytest.mark.parametrize("function", [Twice, Twice.apply], ids=["class", "apply"])
def test_a_backward_by_hand_is_what_it_says(function: Callable[..., Any]) -> None:
    found = derive(backward(function), "x=b n, w=n")
    assert found.formula.text.splitlines()[2:4] == ["    dx = dy * w * 2.0", '    dw = f.total(dy * x, "b")']


def test_autograd_within_a_reference_is_read() -> None:
    def by_grad(x: Any, w: Any, dy: Any) -> Any:
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        dx, dw = torch.autograd.grad(x * w, [x, w], dy)
        return dx, dw

    def by_backward(x: Any, w: Any, dy: Any) -> Any:
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        (x * w).backward(dy)
        return {"dx": x.grad, "dw": w.grad}

    for each in (by_grad, by_backward):
        found = derive(each, "x=b n, w=n, dy=b n")
        assert [operand.name for operand in found.op.outputs] == ["dx", "dw"]
        assert found.op.formula.__name__ == each.__name__


def strided(x: Any, w: Any) -> Any:
    return torch.nn.functional.conv1d(x, w, stride=2, padding=1)


def means(x: Any) -> Any:
    return torch.nn.functional.avg_pool2d(x, (3, 2), stride=(2, 1), padding=(1, 0))


def test_the_gradient_of_an_output_is_as_long_as_that() -> None:
    """By windows that have steps, of which the gradient has as many places as the output has."""
    found = derive(backward(strided), "x=b c n, w=m c k", fixed={"b": 2, "c": 2, "m": 3, "k": 3})
    assert ", where n_out = floor((((n + 2) - 1) - (k - 1)) / 2) + 1, " in found.said
    assert found.op.possible_shapes("dy", (2, 2, 8), 2, {"m": 3, "k": 3}) == ((2, 3, 4),)
    text = derive(backward(means), "x=b c n m", fixed={"c": 2}).formula.text
    assert '(f.position("n") - f.position("n_window", 3.0) + 1.0) / 2.0, "n_out", 0.0)' in text
    assert "pool / 6.0" in text


def test_what_follows_from_what_no_input_has_is_refused_with_a_way_out() -> None:
    def twice(x: Any, w: Any) -> Any:
        return strided(strided(x, w), w)

    with pytest.raises(UnreadableError, match=r"'n_out_out' places, which follow .* sizes of windows in `fixed`"):
        derive(backward(twice), "x=b c n, w=c c2 k", fixed={"b": 2, "c": 2, "c2": 2, "k": 3})


def padded(x: Any, w: Any, b: Any) -> Any:
    return torch.nn.functional.conv_transpose1d(x, w, b, padding=1)


def dilated(x: Any, w: Any) -> Any:
    return torch.nn.functional.conv_transpose2d(x, w, padding=(1, 2), dilation=(1, 2))


def doubled(x: Any, w: Any) -> Any:
    y = torch.nn.functional.conv_transpose1d(x, w, stride=2)
    return y.reshape(*y.shape[:2], -1, 2)


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("function", "shapes", "fixed"),
    [
        (padded, "x=b c n, w=c m k, b=m, dy=b m n", {"k": 3}),
        (dilated, "x=b c h s, w=c m k j, dy=b m h s", {"k": 3, "j": 3}),
        (doubled, "x=b c n, w=c m k, dy=b m n two", {"k": 2, "two": 2}),
    ],
)
def test_the_gradient_of_a_transposed_convolution_is_a_convolution(
    function: Callable[..., Any], shapes: str, fixed: dict[str, int]
) -> None:
    text = derive(backward(function), shapes, fixed=fixed).formula.text
    assert text.count("f.dot(") == 2


def index_add(y: Any, x: Any, t: Any) -> Any:
    return y.index_add(0, t, x, alpha=2)


def scatter_add(y: Any, x: Any, t: Any) -> Any:
    return y.scatter_add(0, t, x)


def accumulated(y: Any, x: Any, t: Any) -> Any:
    return torch.index_put(y, (t,), x, accumulate=True)


def histogram(like: Any, t: Any) -> Any:
    return torch.zeros_like(like).index_add_(0, t, torch.ones(len(t), dtype=like.dtype))


@pytest.mark.parametrize(
    ("reference", "shapes", "terms"),
    [
        (index_add, "y=v d, x=n d, t=n", "x"),
        (scatter_add, "y=v d, x=n d, t=n d", "x"),
        (accumulated, "y=v d, x=n d, t=n", "x"),
        (histogram, "like=v, t=n", "1.0"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_sums_by_place_are_sums_of_the_terms_that_meet(reference: Callable[..., Any], shapes: str, terms: str) -> None:
    found = derive(reference, shapes)
    assert found.op.operand("t").index == "v"
    assert f'f.total(f.where(f.position("v") == t, {terms}, 0.0), "n")' in found.formula.text


def test_what_may_meet_where_it_is_not_summed_is_refused() -> None:
    with pytest.raises(UnreadableError, match="puts elements at places that may be the same"):
        derive(lambda y, x, t: torch.index_put(y, (t,), x), "y=v d, x=n d, t=n", dtypes={"t": "int64"})
    with pytest.raises(UnreadableError, match="reduces by 'amax'"):
        derive(lambda y, x, t: y.scatter_reduce(0, t, x, "amax"), "y=v d, x=n d, t=n d", dtypes={"t": "int64"})
