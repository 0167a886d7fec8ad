"""References that move elements, or take windows of them, become index maps with torch's own values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch

from fuzz.references.derive import derive
from fuzz.references.dims import UnreadableError
from fuzz.references.guard import drawn, value
from oracles.check import check
from oracles.op import Op

F = torch.nn.functional


def strided(x, w, b):  # type: ignore[no-untyped-def]
    return F.conv2d(x, w, b, stride=2, padding=(1, 0), dilation=(1, 2))


def grouped(x, w):  # type: ignore[no-untyped-def]
    return F.conv1d(x, w, padding=2, groups=2)


def cornered(x, y):  # type: ignore[no-untyped-def]
    sizes = {"scale_factor": 2}, {"size": y.shape[:1]}, {"size": 7}
    return tuple(F.interpolate(x, mode="linear", align_corners=True, **each) for each in sizes)


def same_extents(x, w):  # type: ignore[no-untyped-def]
    return F.conv1d(x, w, padding="same", dilation=3)


def same_planes(x, w):  # type: ignore[no-untyped-def]
    return F.conv2d(x, w, padding="same", groups=2)


def resized(x, y):  # type: ignore[no-untyped-def]
    sizes = {"scale_factor": 3}, {"scale_factor": 0.5}, {"size": y.shape[:1]}, {"size": 7}
    return tuple(F.interpolate(x, mode="linear", **each) for each in sizes)


def every_fourth(x):  # type: ignore[no-untyped-def]
    return F.interpolate(x, scale_factor=1 / 4, mode="nearest")


def quartered(x, w):  # type: ignore[no-untyped-def]
    return F.conv1d(x, w, groups=4)


def as_long(x, w):  # type: ignore[no-untyped-def]
    return F.conv1d(x, w, padding=w.shape[-1] // 2)


def up_to_each(x, w):  # type: ignore[no-untyped-def]
    return F.conv1d(x, w, padding=w.shape[-1] - 1)[..., : x.shape[-1]], F.conv1d(F.pad(x, (w.shape[-1] - 1, 0)), w)


def shortened(x, w):  # type: ignore[no-untyped-def]
    return F.conv_transpose1d(x, w, padding=w.shape[-1] // 2)


def depthwise(x, w):  # type: ignore[no-untyped-def]
    return F.conv1d(x, w, padding=1, groups=x.shape[1])


def transposed(x, w):  # type: ignore[no-untyped-def]
    return F.conv_transpose2d(x, w, stride=(2, 3), padding=1, output_padding=(1, 0), dilation=(2, 1))


def transposed_groups(x, w, b):  # type: ignore[no-untyped-def]
    return F.conv_transpose1d(x, w, b, stride=2, groups=2)


def volume(x, w):  # type: ignore[no-untyped-def]
    return F.conv3d(x, w, stride=(1, 2, 1))


def residual(x, w):  # type: ignore[no-untyped-def]
    h = F.relu(F.conv1d(x, w, padding=1))
    return x + F.conv1d(h, w, padding=1)


def pools(x):  # type: ignore[no-untyped-def]
    h = F.max_pool2d(x, 3, stride=2, padding=1, dilation=1)
    return F.avg_pool2d(h, 2, stride=1), F.avg_pool2d(h, (2, 1), padding=(1, 0), count_include_pad=False)


def whole_windows(x):  # type: ignore[no-untyped-def]
    return F.max_pool1d(x, 2, ceil_mode=True)


def partial_windows(x):  # type: ignore[no-untyped-def]
    means = (F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=counts) for counts in (True, False))
    return *means, F.avg_pool2d(x, 2, 3, ceil_mode=True), F.max_pool2d(x, 2, 3, 1, ceil_mode=True)


def between(x):  # type: ignore[no-untyped-def]
    return F.interpolate(x, scale_factor=(2, 4), mode="bilinear")


def halves(x, y):  # type: ignore[no-untyped-def]
    (b, n), m = x.shape, len(y)
    return x[:, : n // 2 + 1] / (2 * n + 3 * b), x[:, (n - 1) // 3 :: 2], x / (n * m - n // 2 + 1)


def cubic(x):  # type: ignore[no-untyped-def]
    kinds = {"scale_factor": 3}, {"size": (7, 5)}, {"scale_factor": 0.5, "align_corners": True}
    return tuple(F.interpolate(x, mode="bicubic", **each) for each in kinds)


def upsampled(x):  # type: ignore[no-untyped-def]
    return F.interpolate(x, scale_factor=2, mode="nearest")


def pieces(x, y):  # type: ignore[no-untyped-def]
    z = torch.cat([x[:, 1:], y, x[:, :-2]], 1)
    return torch.roll(z, -3, 1).flip(1), z[:, 0], x[:, ::2]


def padded(x):  # type: ignore[no-untyped-def]
    return F.pad(x, (1, 2), value=0.5) + F.pad(x, (2, 1))


def repeated(x):  # type: ignore[no-untyped-def]
    modes = "circular", "reflect", "replicate"
    return *(F.pad(x, (1, 2, 0, 3), mode=mode) for mode in modes), torch.nn.ReflectionPad2d(2)(x)


def around(x, w):  # type: ignore[no-untyped-def]
    half = w.shape[-1] // 2
    return tuple(F.conv1d(F.pad(x, (half, half), mode=mode), w) for mode in ("circular", "reflect", "replicate"))


def at_its_end(x):  # type: ignore[no-untyped-def]
    z = torch.zeros_like(x)
    z[:, -2:] = x[:, 1:3]
    return z


def rotated(x):  # type: ignore[no-untyped-def]
    one, two = x.chunk(2, -1)
    return torch.cat([-two, one], -1)


def group_norm(x, w, b):  # type: ignore[no-untyped-def]
    return F.group_norm(x, 4, w, b)


def heads(x, w):  # type: ignore[no-untyped-def]
    b, s, n = x.shape
    q = (x @ w).view(b, s, 2, n // 2).transpose(1, 2)
    p = torch.softmax(q @ q.transpose(-1, -2), -1)
    return (p @ q).transpose(1, 2).reshape(b, s, n)


def flattened(x, w):  # type: ignore[no-untyped-def]
    return F.relu(x).flatten(1) @ w


def crosses(x):  # type: ignore[no-untyped-def]
    return x @ x.transpose(-1, -2)


def cuts(x):  # type: ignore[no-untyped-def]
    return x.view(x.shape[0], -1, 1, x.shape[1]).transpose(1, 3).reshape(-1, 1)


def kept(x):  # type: ignore[no-untyped-def]
    return x.mean(-1, keepdim=True)


def summed(x):  # type: ignore[no-untyped-def]
    return torch.cumsum(x, 1), torch.flip(torch.cumsum(torch.flip(x, (1,)), 1), (1,))


def broadcast(x, bias):  # type: ignore[no-untyped-def]
    return x + bias


def causal(q, k, v):  # type: ignore[no-untyped-def]
    s = q.shape[-2]
    later = torch.ones(s, s, dtype=torch.bool).tril().logical_not()
    return (q @ k.transpose(-1, -2)).masked_fill(later, -1e30).softmax(-1) @ v


def squares(x):  # type: ignore[no-untyped-def]
    n = x.shape[-1]
    return x @ (torch.eye(n) - torch.full((n, n), 0.5)).to(x.dtype) * torch.linspace(-1, 2, n, dtype=x.dtype)


READ: Mapping[Callable[..., Any], tuple[str, Mapping[str, int]]] = {
    strided: ("x=b c h w, w=m c k j, b=m", {"k": 3, "j": 2}),
    grouped: ("x=b n t, w=m c k", {"n": 6, "m": 4, "c": 3, "k": 3}),
    cornered: ("x=b c t, y=m", {}),
    same_extents: ("x=b c t, w=m c k", {}),
    same_planes: ("x=b 2c h v, w=2m c k j", {"k": 2, "j": 5}),
    resized: ("x=b c 2t, y=m", {}),
    every_fourth: ("x=b c 4t", {}),
    quartered: ("x=b 4c t, w=m c k", {}),
    as_long: ("x=b c t, w=m c k", {}),
    up_to_each: ("x=b c t, w=m c k", {}),
    shortened: ("x=b c t, w=c m k", {}),
    depthwise: ("x=b n t, w=n c k", {"n": 5, "c": 1, "k": 3}),
    transposed: ("x=b c h w, w=c m k j", {"k": 3, "j": 4}),
    transposed_groups: ("x=b n t, w=n c k, b=m", {"n": 4, "m": 6, "c": 3, "k": 2}),
    volume: ("x=b c d h w, w=m c i j k", {"b": 1, "c": 2, "m": 2, "i": 2, "j": 3, "k": 1}),
    residual: ("x=b c t, w=c d k", {"c": 4, "d": 4, "k": 3}),
    pools: ("x=b c h w", {"b": 1}),
    whole_windows: ("x=b c t", {}),
    partial_windows: ("x=b c h w", {"b": 1}),
    between: ("x=b c h w", {"b": 1}),
    halves: ("x=b n, y=m", {}),
    cubic: ("x=b c 2h 2v", {"b": 1}),
    upsampled: ("x=b c h w", {"b": 1}),
    pieces: ("x=b n, y=b m", {}),
    padded: ("x=b n", {}),
    repeated: ("x=b c h v", {"b": 1}),
    around: ("x=b c t, w=m c k", {}),
    at_its_end: ("x=b n", {}),
    rotated: ("x=b n", {}),
    group_norm: ("x=b c s, w=c, b=c", {}),
    heads: ("x=b s n, w=n m", {"n": 6, "m": 6}),
    flattened: ("x=b c s, w=n m", {"c": 3, "s": 4, "n": 12}),
    crosses: ("x=m k", {}),
    cuts: ("x=m n", {}),
    kept: ("x=m n", {}),
    summed: ("x=b n", {}),
    causal: ("q=b s d, k=b s d, v=b s e", {}),
    squares: ("x=b n", {}),
    broadcast: ("x=b c t, bias=m l", {"c": 5, "m": 5, "l": 1}),
}


def _read(reference: Callable[..., Any]) -> Op:
    shapes, fixed = READ[reference]
    return derive(reference, shapes, fixed=fixed).op


@pytest.mark.some(3)
@pytest.mark.parametrize("reference", READ, ids=lambda each: each.__name__)
def test_is_read(reference: Callable[..., Any]) -> None:
    """The guard has compared it at three sets of extents; here it has others, of float64, and torch's own value."""
    op = _read(reference)
    check(op)
    known = {dim: 48 - 4 * at for at, dim in enumerate(op.named)} | {"b": 2} | {**op.fixed}
    arrays = drawn(op, known, np.random.default_rng(5), ())
    found = reference(*(torch.from_numpy(arrays[each.name]) for each in sorted(op.inputs, key=_place(reference))))
    outputs = found if isinstance(found, tuple) else (found,)
    for mine, theirs in zip(value(op, arrays).values(), outputs, strict=True):
        assert mine.shape == tuple(theirs.shape)
        assert np.allclose(mine, theirs.numpy(), rtol=1e-9, atol=1e-9)


def _place(reference: Callable[..., Any]) -> Callable[[Any], int]:
    names = [part.split("=")[0].strip() for part in READ[reference][0].split(",")]
    return lambda operand: names.index(operand.name)


@pytest.mark.some(1)
@pytest.mark.parametrize("reference", [repeated, cubic], ids=lambda each: each.__name__)
def test_what_takes_elements_again_is_read(reference: Callable[..., Any]) -> None:
    assert len(_read(reference).outputs) == len(reference(torch.ones(2, 3, 4, 6)))


def test_a_formula_reads_as_one_writes_it() -> None:
    text = derive(strided, READ[strided][0], fixed=READ[strided][1]).formula.text
    assert '    taken = f.take(x, 2.0 * h_out + f.position("k") - 1.0, "h", 0.0)\n' in text
    assert '(f.extent("h") + 2.0 - 1.0 - (f.extent("k") - 1.0)) / 2.0) + 1.0)' in text
    assert 'w, ("c", "k", "j"))' in text


def by_extent(x, y):  # type: ignore[no-untyped-def]
    return F.pad(x, (1, 0), value=y.shape[0])


@pytest.mark.parametrize(
    ("reference", "shapes", "words"),
    [
        (by_extent, "x=b n, y=m", "pads by a number that follows from extents"),
        (lambda x: torch.exp(x)[..., :640], "x=b n", "does something else at larger extents"),
        (lambda x: torch.exp(x[-640:, None]), "x=b n", "does something else at larger extents"),
        (lambda x: torch.exp(x).split(640, -1)[0], "x=b n", "does something else at larger extents"),
    ],
)
def test_what_is_no_index_map_is_refused_in_a_line(reference: Callable[..., Any], shapes: str, words: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        derive(reference, shapes)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
