"""A Python loop over a dimension is a linear recurrence, or is refused in a line that says why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from oracles.reference.derive import derive
from oracles.reference.dims import UnreadableError

torch = pytest.importorskip("torch")


def stacked(a: Any, b: Any) -> Any:
    h = torch.zeros_like(b[:, 0])
    ys = []
    for t in range(a.shape[1]):
        h = a[:, t] * h + b[:, t]
        ys.append(h)
    return torch.stack(ys, 1)


def written(a: Any, b: Any) -> Any:
    out = torch.empty_like(b)
    h = torch.zeros(len(b))
    for t in range(a.shape[1]):
        h = a[:, t] * h + b[:, t]
        out[:, t] = h
    return out


def joined(z: Any, b: Any) -> Any:
    """Gates that are calculated, also of what every turn has."""
    h = torch.zeros(len(b))
    ys = []
    for t in range(z.shape[1]):
        h = torch.sigmoid(z[:, t]) * h + (1 - torch.sigmoid(z[:, t])) * b[:, t]
        ys.append(h[:, None])
    return torch.cat(ys, 1)


def last(a: Any, b: Any, s: Any) -> Any:
    h = s
    for t in range(a.shape[1]):
        h = h + a[:, t] * (b[:, t] - h)
    return h


def attention(q: Any, k: Any, v: Any, g: Any) -> Any:
    """Linear attention, with a state of matrices and what is read of it in each turn."""
    s = torch.zeros(q.shape[0], q.shape[2], v.shape[2])
    ys = []
    for q_t, k_t, v_t, g_t in zip(q.unbind(1), k.unbind(1), v.unbind(1), g.unbind(1), strict=True):
        s = g_t[:, None, None].exp() * s + k_t[:, :, None] * v_t[:, None, :]
        ys.append((q_t[:, :, None] * s).sum(1))
    return torch.stack(ys, 1), s


def two(a: Any, b: Any) -> Any:
    """A recurrence of what another one made."""
    fast = slow = torch.zeros(len(b))
    ys = []
    for t in range(a.shape[1]):
        fast = a[:, t] * fast + b[:, t]
        slow = 0.5 * slow - fast / 2.0
        ys.append(slow)
    return torch.stack(ys, 1)


@pytest.mark.parametrize(
    ("reference", "shapes", "text"),
    [
        (stacked, "a=m t, b=m t", ['    y = f.scan(a, b, "t")', '    return {"y": y}']),
        (written, "a=m t, b=m t", ['    out = f.scan(a, b, "t")', '    return {"out": out}']),
        (joined, "z=m t, b=m t", ["    sigmoid = f.sigmoid(z)", '    y = f.scan(sigmoid, (1.0 - sigmoid) * b, "t")']),
        (last, "a=m t, b=m t, s=m", [
            '    h = f.take(f.scan(1.0 + -1.0 * a, b * a, "t", s), f.extent("t") - 1.0, "t")'
        ]),
        (attention, "q=b t d, k=b t d, v=b t e, g=b t", [
            '    s2 = f.scan(f.exp(g), k * v, "t")', '    y0 = f.total(q * s2, "d")',
            '    s = f.take(s2, f.extent("t") - 1.0, "t")',
        ]),
        (two, "a=m t, b=m t", ['    fast = f.scan(a, b, "t")', '    y = f.scan(0.5, -(fast / 2.0), "t")']),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)  # fmt: skip
def test_a_loop_is_a_recurrence(reference: Callable[..., Any], shapes: str, text: list[str]) -> None:
    lines = derive(reference, shapes).formula.text.splitlines()
    assert [each for each in lines if each in text] == text


def test_what_is_multiplied_by_again_and_again_is_drawn_close_to_one() -> None:
    found = derive(stacked, "a=m t, b=m t").op
    assert [each.values for each in found.inputs] == ["gates", "finite"]
    assert derive(attention, "q=b t d, k=b t d, v=b t e, g=b t").op.operand("g").values == "log_gates"
    assert derive(lambda x: x.cumprod(-1), None).op.inputs[0].values == "gates"


def test_a_loop_of_fixed_length_is_what_it_unrolls_to() -> None:
    text = derive(last, "a=m t, b=m t, s=m", fixed={"t": 3}).formula.text
    assert "scan" not in text


def rnn(a: Any, b: Any) -> Any:
    h = torch.zeros(len(b))
    for t in range(a.shape[1]):
        h = torch.tanh(a[:, t] * h + b[:, t])
    return h


def squared(a: Any, b: Any) -> Any:
    h = torch.zeros(len(b))
    for t in range(a.shape[1]):
        h = h * h * a[:, t] + b[:, t]
    return h


def coupled(a: Any, b: Any) -> Any:
    h = g = torch.zeros(len(b))
    for t in range(a.shape[1]):
        h, g = g * a[:, t], h + b[:, t]
    return h + g


def backwards(a: Any, b: Any) -> Any:
    h = torch.zeros(len(b))
    for t in reversed(range(a.shape[1])):
        h = a[:, t] * h + b[:, t]
    return h


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        (rnn, "makes more of what the turn before made than a factor times it"),
        (squared, "multiplies what the turn before made by itself"),
        (coupled, "takes what the turn before made for more than its own recurrence"),
        (
            backwards,
            "with other extents it does something else: .* A loop is read if its turns take one place",
        ),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_what_is_no_linear_recurrence_is_refused(reference: Callable[..., Any], why: str) -> None:
    with pytest.raises(UnreadableError, match=why):
        derive(reference, "a=m t, b=m t")
