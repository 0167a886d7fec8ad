"""A Python loop over a dimension is a linear recurrence, or is refused in a line that says why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from fuzz.references.derive import derive
from fuzz.references.dims import UnreadableError


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


@pytest.mark.some(3)
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


def online(x: Any) -> Any:
    """The logarithm of the sum of exponentials, by a maximum that is kept up to date."""
    most = torch.full_like(x[:, 0], -torch.inf)
    mass = torch.zeros_like(most)
    for t in range(x.shape[1]):
        new = torch.maximum(most, x[:, t])
        mass = mass * torch.exp(most - new) + torch.exp(x[:, t] - new)
        most = new
    return most + torch.log(mass)


def welford(x: Any) -> Any:
    mean = squares = torch.zeros(len(x))
    for t in range(x.shape[1]):
        away = x[:, t] - mean
        mean = mean + away / (t + 1)
        squares = squares + away * (x[:, t] - mean)
    return mean, squares


def flash(s: Any, v: Any) -> Any:
    """Attention, key by key."""
    most, mass = torch.full_like(s[:, 0], -torch.inf), torch.zeros(len(s))
    out = torch.zeros(len(s), v.shape[1])
    for t in range(s.shape[1]):
        new = torch.maximum(most, s[:, t])
        kept, p = torch.exp(most - new), torch.exp(s[:, t] - new)
        mass = mass * kept + p
        out = out * kept[:, None] + p[:, None] * v[t]
        most = new
    return out / mass[:, None]


def lows(x: Any) -> Any:
    least, ys = torch.zeros(len(x)), []
    for t in range(x.shape[1]):
        least = torch.minimum(x[:, t], least)
        ys.append(least)
    return torch.stack(ys, 1)


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("reference", "shapes", "text"),
    [
        (online, "x=b t", ["    new = f.greatest(so_far, \"t_up_to\")"]),
        (flash, "s=m t, v=t d", ["    out = f.take(f.scan(e, e2 * v, \"t\"), f.extent(\"t\") - 1.0, \"t\")"]),
        (welford, "x=b t", [
            "    count = f.position(\"t\") + 1.0", "    mean2 = f.scan(1.0 + -1.0 / count, x / count, \"t\")",
            "    away = x - f.take(mean2, f.position(\"t\") - 1.0, \"t\", 0.0)",
        ]),
        (lows, "x=b t", ["    y = f.where(0.0 < least, 0.0, least)"]),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)  # fmt: skip
def test_states_may_be_made_of_others_that_are_known(
    reference: Callable[..., Any], shapes: str, text: list[str]
) -> None:
    """The guard says that the formula is the reference, also with what others were a turn before."""
    lines = derive(reference, shapes).formula.text.splitlines()
    assert [each for each in lines if each in text] == text


def returns(a: Any, b: Any) -> Any:
    """From the last place to the first one, in the order of places."""
    h = torch.zeros(len(b))
    ys = []
    for t in reversed(range(a.shape[1])):
        h = a[:, t] * h + b[:, t]
        ys.append(h)
    return torch.stack(ys[::-1], 1)


def put_first(a: Any, b: Any) -> Any:
    h = torch.zeros(len(b))
    ys = list[Any]()
    for a_t, b_t in zip(reversed(a.unbind(1)), reversed(b.unbind(1)), strict=True):
        h = a_t * h + b_t
        ys.insert(0, h[:, None])
    return torch.cat(ys, 1)


def written_backwards(a: Any, b: Any) -> Any:
    y = torch.empty_like(b)
    h = torch.zeros(len(b))
    for t in range(a.shape[1] - 1, -1, -1):
        h = a[:, t] * h + b[:, t]
        y[:, t] = h
    return y


def as_made(a: Any, b: Any) -> Any:
    """Both what the turns made in their order, and what the last of them did."""
    h = torch.zeros(len(b))
    ys = []
    for t in reversed(range(a.shape[1])):
        h = a[:, t] * h + b[:, t]
        ys.append(h)
    return torch.stack(ys, 1), h


@pytest.mark.some(2)
@pytest.mark.parametrize("reference", [returns, put_first, written_backwards, as_made])
def test_a_loop_may_go_backwards(reference: Callable[..., Any]) -> None:
    """The guard says that the formula is the reference, and a scan is one of any length."""
    text = derive(reference, "a=m t, b=m t").formula.text
    assert text.count("f.scan(") == 1
    turned = {returns: 3, put_first: 3, written_backwards: 3, as_made: 2}
    assert text.count('- 1.0 - f.position("t"), "t")') == turned[reference]


def average(x: Any) -> Any:
    """It begins with the first place, and turns from the second one on."""
    h = x[:, 0]
    ys = [h]
    for t in range(1, x.shape[1]):
        h = 0.9 * h + 0.1 * x[:, t]
        ys.append(h)
    return torch.stack(ys, 1)


def gated(x: Any, g: Any) -> Any:
    """It takes nothing of the first place of one input, and returns the last state alone."""
    h = x[:, 0]
    for t in range(1, x.shape[1]):
        h = g[:, t] * h + (1 - g[:, t]) * x[:, t]
    return h


def emphasis(x: Any) -> Any:
    """Return x less 0.97 times its neighbour: no place depends on what the loop made before."""
    ys = [x[:, 0]]
    for t in range(1, x.shape[1]):
        ys.append(x[:, t] - 0.97 * x[:, t - 1])
    return torch.stack(ys, -1)


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("reference", "shapes", "scans"), [(average, "x=b t", 1), (gated, "x=b t, g=b t", 1), (emphasis, "x=b t", 0)]
)
def test_a_loop_may_begin_with_the_first_place(reference: Callable[..., Any], shapes: str, scans: int) -> None:
    """The guard says that the formula is the reference."""
    text = derive(reference, shapes).formula.text
    assert text.count("f.scan(") == scans
    assert 'f.extent("t") - 1.0' in text


def test_what_a_loop_made_may_be_returned_the_other_way_round() -> None:
    def reverse(a: Any, b: Any) -> Any:
        h = torch.zeros(len(b))
        ys = []
        for t in range(a.shape[1]):
            h = a[:, t] * h + b[:, t]
            ys.append(h)
        return torch.stack(ys[::-1], 1)

    assert 'f.scan(a, b, "t")' in derive(reverse, "a=m t, b=m t").formula.text


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


def mixed(a: Any, b: Any) -> Any:
    """Two states that are made of each other."""
    h = g = torch.zeros(len(b))
    for t in range(a.shape[1]):
        h, g = a[:, t] * h + b[:, t] * g, g + h
    return h


def both_ways(a: Any, b: Any) -> Any:
    h, length = torch.zeros(len(b)), a.shape[1]
    for t in range(length):
        h = a[:, t] * h + b[:, length - 1 - t]
    return h


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        (rnn, "makes more of what the iteration before made than a factor times it"),
        (squared, "multiplies what the iteration before made by itself"),
        (coupled, "a loop carries what is made of each other: that goes round"),
        (mixed, "with other extents it does something else: .* carry are made of each other"),
        (both_ways, "with other extents it does something else: .* A loop is read if its iterations take one place"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_what_is_no_linear_recurrence_is_refused(reference: Callable[..., Any], why: str) -> None:
    with pytest.raises(UnreadableError, match=why):
        derive(reference, "a=m t, b=m t")
