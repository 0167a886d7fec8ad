"""What the rows' expressions may name: torch and NumPy, and what several rows state or need to call a library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

F = torch.nn.functional


def pad(x: Tensor, before: int, after: int, mode: str = "constant") -> Tensor:
    """Return the rows with more elements on either side."""
    return F.pad(x[None], (before, after), mode)[0]


def slid(x: Tensor, n: int) -> Tensor:
    """Return all windows of n elements of each row, shape `[..., windows, n]`."""
    return torch.stack([x[..., at : x.shape[-1] - n + 1 + at] for at in range(n)], -1)


def windows(x: Tensor, n: int) -> Tensor:
    """Return the n elements up to each element of each row, zeros before the first, shape `[..., n elements, n]`."""
    return slid(pad(x, n - 1, 0), n)


def patches(x: Tensor, n: int, mode: str = "constant") -> Tensor:
    """Return the n x n elements around each element of a matrix, zeros outside, shape `[n * n, h, w]`."""
    padded = F.pad(x[None, None], (n // 2,) * 4, mode)[0, 0]
    return torch.stack([padded[i : i + x.shape[0], j : j + x.shape[1]] for i in range(n) for j in range(n)])


def fir(x: Tensor, *weights: float) -> Tensor:
    """Return the weighted sums of as many neighbours as there are weights, where all of them exist."""
    n = x.shape[-1] - len(weights) + 1
    return sum(w * x[..., at : at + n] for at, w in enumerate(weights))


def fir2(x: Tensor, *rows: Sequence[float], mode: str = "constant") -> Tensor:
    """Return the weighted sums of the elements around each element of a matrix, zeros outside."""
    y, half = F.pad(x[None, None], (len(rows[0]) // 2,) * 2 + (len(rows) // 2,) * 2, mode)[0, 0], x.shape
    some = (w * y[i : i + half[0], j : j + half[1]] for i, row in enumerate(rows) for j, w in enumerate(row) if w)
    return sum(some)


def gauss(sigma: float, radius: int) -> list[float]:
    """Return the weights of Gauss at the integers up to the radius, whose sum is 1."""
    at = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    return [float(each) for each in at / at.sum()]


def outer(down: Sequence[float], across: Sequence[float]) -> list[list[float]]:
    """Return the products of weights."""
    return [[a * b for b in across] for a in down]


def middle(x: Tensor) -> Tensor:
    """Return the median of each row, the mean of both middle elements if there are two."""
    ordered, n = x.sort(-1).values, x.shape[-1]
    return (ordered[..., (n - 1) // 2] + ordered[..., n // 2]) / 2


def rank(x: Tensor) -> Tensor:
    """Return the rank of each element in its row from 1 on, that of equal ones being their mean."""
    below = (x[..., None, :] < x[..., None]).sum(-1)
    equal = (x[..., None, :] == x[..., None]).sum(-1)
    return below + (equal + 1) / 2


def moving_rank(x: Tensor) -> Tensor:
    """Return the rank of the last element of each window, scaled to between -1 and 1."""
    last = x[..., -1:]
    below, equal = (x < last).sum(-1), (x == last).sum(-1)
    return 2 * ((below + (below + equal - 1)) / 2 / (x.shape[-1] - 1) - 0.5)


def replaced(library: Any, x: Any, old: float, new: float) -> Any:
    """Return a copy in which a library has replaced numbers in place."""
    y = x.copy()
    library.replace(y, old, new)
    return y


def recurrence(x: Tensor, a: float) -> Tensor:
    """Return y[t] = x[t] + a y[t - 1] along each row."""
    h, ys = torch.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):
        h = a * h + x[:, t]
        ys.append(h)
    return torch.stack(ys, 1)


def ramp(x: Tensor) -> Tensor:
    """Return the places in a row, less their mean."""
    return torch.arange(x.shape[-1]) - (x.shape[-1] - 1) / 2


def wiener(x: Tensor, noise: float) -> Tensor:
    """Return Wiener's filter of three elements of a vector with zeros around."""
    some = slid(x, 3)
    mean = some.mean(-1)
    spread = some.square().mean(-1) - mean * mean
    return torch.where(spread < noise, mean, mean + (x[1:-1] - mean) * (1 - noise / spread))


def sides(x: Tensor) -> Tensor:
    """Return 1 for positive frequencies of a row, -1 for negative ones, and 0 for others."""
    n = x.shape[-1]
    at = torch.arange(n)
    return ((at > 0) & (2 * at < n)).to(x.dtype) - (2 * at > n).to(x.dtype)


def cosines(x: Tensor, kind: int, ortho: bool = True) -> Tensor:
    """Return the cosine transform of a kind, 2, 3 or 4, of each row."""
    return x @ _waves(torch.cos, x.shape[-1], kind, 0.0, ortho)


def sines(x: Tensor, kind: int) -> Tensor:
    """Return the sine transform of a kind, 2 or 4, of each row, as a matrix of orthogonal columns."""
    return x @ _waves(torch.sin, x.shape[-1], kind, 1.0, True)


def _waves(wave: Any, n: int, kind: int, first: float, ortho: bool) -> Tensor:
    at = torch.arange(n)
    whole, half = at + first, at + 0.5
    down, across = {2: (half, whole), 3: (whole, half), 4: (half, half)}[kind]
    matrix = wave(math.pi / n * down[:, None] * across) * (math.sqrt(2 / n) if ortho else 2)
    end = (at == 0) if first == 0 else (at == n - 1)
    scale = torch.where(end, math.sqrt(0.5), 1.0) if kind != 4 and ortho else torch.ones(n)
    return matrix * (scale[:, None] if kind == 3 else scale)


def moment(x: Tensor, order: int) -> Tensor:
    """Return the central moment of each row."""
    return ((x - x.mean(-1, keepdim=True)) ** order).mean(-1)


def routine(blas: Any, name: str, x: Any) -> Any:
    """Return the routine of BLAS for the dtype of an array."""
    return getattr(blas, ("s" if x.dtype == np.float32 else "d") + name)


def normalized(faiss: Any, x: Any) -> Any:
    """Return a copy that faiss has normalised in place."""
    y = x.copy()
    faiss.normalize_L2(y)
    return y


def searched(index: Any, x: Any, y: Any) -> Any:
    """Return the distance of each row of x to the best row of y in an index."""
    index.add(y)
    return index.search(x, 1)[0][:, 0]


def places(x: Any) -> tuple[Any, Any]:
    """Return the places halfway between neighbours in the rows of a matrix, as OpenCV's maps."""
    down, across = np.mgrid[: x.shape[0], : x.shape[1] - 1].astype(np.float32)
    return across + np.float32(0.5), down


DB2 = [(each + sign * math.sqrt(3)) / (4 * math.sqrt(2)) for each, sign in ((1, -1), (3, -1), (3, 1), (1, 1))]
"""The low-pass filter of Daubechies with four taps."""
HALF = math.sqrt(0.5)


def joined(a: Any, b: Any) -> Any:
    """Return the complex numbers a + ib, in the precision of both."""
    return a + np.complex64(1j) * b if a.dtype == np.float32 else a + 1j * b


def column(library: Any, x: Any) -> Any:
    """Return an array as a series of a library of data frames."""
    return library.Series(x)


def averaged(x: Tensor, alpha: float) -> Tensor:
    """Return y[t] = (1 - alpha) y[t - 1] + alpha x[t] along each row, where y[0] = x[0]."""
    h = x[:, 0]
    ys = [h]
    for t in range(1, x.shape[1]):
        h = (1 - alpha) * h + alpha * x[:, t]
        ys.append(h)
    return torch.stack(ys, 1)


_COMPILED: dict[Any, Any] = {}


def jitted(numba: Any, function: Any, **more: Any) -> Any:
    """Return a function as numba compiles it, which is done once."""
    key = function.__code__
    if key not in _COMPILED:
        _COMPILED[key] = numba.njit(function, **more)
    return _COMPILED[key]


def trained(kind: Any, p: Tensor, g: Tensor, **more: Any) -> Tensor:
    """Return a parameter after steps of an optimiser of torch with the gradients g."""
    weight = torch.nn.Parameter(p.clone())
    steps = kind([weight], **more)
    for each in g:
        weight.grad = each.clone()
        steps.step()
    return weight.detach()


def stepped(optax: Any, rule: Any, p: Any, g: Any) -> Any:
    """Return what steps of a rule of optax add to a parameter, or make of it."""
    state = rule.init(p)
    for at in range(g.shape[0]):
        change, state = rule.update(g[at], state, p)
        p = optax.apply_updates(p, change)
    return p


def sgd(p: Tensor, g: Tensor, nesterov: bool = False, decay: float = 0.0) -> Tensor:
    """Return p after steps with a momentum of 0.9."""
    m = None
    for own in g:
        own = own + decay * p if decay else own
        m = own if m is None else 0.9 * m + own
        p = p - 0.1 * (own + 0.9 * m if nesterov else m)
    return p


def adam(p: Tensor, g: Tensor, shrink: float = 0.0, amsgrad: bool = False, eps: float = 1e-8) -> Tensor:
    """Return p after steps of Adam, or of AdamW if it shrinks."""
    m = v = most = torch.zeros_like(p)
    for t, own in enumerate(g, 1):
        p = p - 0.1 * shrink * p if shrink else p
        m, v = 0.9 * m + 0.1 * own, 0.999 * v + 0.001 * own * own
        most = torch.maximum(most, v) if amsgrad else v
        p = p - 0.1 * (m / (1 - 0.9**t)) / ((most / (1 - 0.999**t)).sqrt() + eps)
    return p


def rmsprop(p: Tensor, g: Tensor, centered: bool = False) -> Tensor:
    """Return p after steps of RMSprop."""
    v = mean = torch.zeros_like(p)
    for own in g:
        v, mean = 0.99 * v + 0.01 * own * own, 0.99 * mean + 0.01 * own
        p = p - 0.1 * own / ((v - mean * mean if centered else v).sqrt() + 1e-8)
    return p


def adagrad(p: Tensor, g: Tensor) -> Tensor:
    """Return p after steps of Adagrad."""
    total = torch.zeros_like(p)
    for own in g:
        total = total + own * own
        p = p - 0.1 * own / (total.sqrt() + 1e-10)
    return p


def adadelta(p: Tensor, g: Tensor) -> Tensor:
    """Return p after steps of Adadelta."""
    v = u = torch.zeros_like(p)
    for own in g:
        v = 0.9 * v + 0.1 * own * own
        change = (u + 1e-6).sqrt() / (v + 1e-6).sqrt() * own
        u = 0.9 * u + 0.1 * change * change
        p = p - 0.1 * change
    return p


def adamax(p: Tensor, g: Tensor) -> Tensor:
    """Return p after steps of Adamax."""
    m = u = torch.zeros_like(p)
    for t, own in enumerate(g, 1):
        m, u = 0.9 * m + 0.1 * own, torch.maximum(0.999 * u, own.abs() + 1e-8)
        p = p - 0.1 / (1 - 0.9**t) * m / u
    return p


def nadam(p: Tensor, g: Tensor) -> Tensor:
    """Return p after steps of NAdam."""
    m, v, product = torch.zeros_like(p), torch.zeros_like(p), 1.0
    for t, own in enumerate(g, 1):
        now, soon = (0.9 * (1 - 0.5 * 0.96 ** (at * 0.004)) for at in (t, t + 1))
        product *= now
        m, v = 0.9 * m + 0.1 * own, 0.999 * v + 0.001 * own * own
        mean = soon / (1 - product * soon) * m + (1 - now) / (1 - product) * own
        p = p - 0.1 * mean / ((v / (1 - 0.999**t)).sqrt() + 1e-8)
    return p


def radam(p: Tensor, g: Tensor) -> Tensor:
    """Return p after steps of RAdam, of which the first five do without a variance."""
    m, v, most = torch.zeros_like(p), torch.zeros_like(p), 2 / (1 - 0.999) - 1
    for t, own in enumerate(g, 1):
        m, v = 0.9 * m + 0.1 * own, 0.999 * v + 0.001 * own * own
        rho = most - 2 * t * 0.999**t / (1 - 0.999**t)
        if rho <= 5:
            p = p - 0.1 * (m / (1 - 0.9**t))
            continue
        rectified = math.sqrt((rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho))
        p = p - 0.1 * (m / (1 - 0.9**t)) * rectified * math.sqrt(1 - 0.999**t) / (v.sqrt() + 1e-8)
    return p


def rprop(p: Tensor, g: Tensor) -> Tensor:
    """Return p after steps of Rprop."""
    before, size = torch.zeros_like(p), torch.full_like(p, 0.1)
    for own in g:
        turn = own * before
        size = torch.where(turn > 0, (size * 1.2).clamp(max=50.0), torch.where(turn < 0, size * 0.5, size))
        before = torch.where(turn < 0, 0.0, own)
        p = p - before.sign() * size
    return p


def asgd(p: Tensor, g: Tensor) -> Tensor:
    """Return p after steps of ASGD, without its mean."""
    for t, own in enumerate(g):
        rate = 0.1 / (1 + 1e-4 * 0.1 * t) ** 0.75
        p = p * (1 - 1e-4 * rate) - rate * own
    return p


def lion(p: Tensor, g: Tensor) -> Tensor:
    """Return p after steps of Lion."""
    m = torch.zeros_like(p)
    for own in g:
        p = p - 0.1 * ((0.9 * m + 0.1 * own).sign() + 1e-3 * p)
        m = 0.99 * m + 0.01 * own
    return p


def ademamix(p: Tensor, g: Tensor) -> Tensor:
    """Return p after steps of AdEMAMix without schedules."""
    m = slow = v = torch.zeros_like(p)
    for t, own in enumerate(g, 1):
        m, slow, v = 0.9 * m + 0.1 * own, 0.9999 * slow + 0.0001 * own, 0.999 * v + 0.001 * own * own
        p = p - 0.1 * (m / (1 - 0.9**t) + 5 * slow) / ((v / (1 - 0.999**t)).sqrt() + 1e-8)
    return p


_HALF_OF_FP4 = (1 / 192, 1 / 6, 1 / 4, 1 / 3, 1 / 2, 2 / 3, 1)
FP4 = (*(-each for each in reversed(_HALF_OF_FP4)), 0.0, *_HALF_OF_FP4)
"""The values of bitsandbytes' four bits of floats, ascending."""
_OF_NF4 = "-1 -0.6961928 -0.52507305 -0.3949175 -0.28444138 -0.18477343 -0.09105004 0 0.0795803 0.1609302 0.2461123 "
NF4 = tuple(map(float, (_OF_NF4 + "0.33791524 0.44070983 0.562617 0.72295684 1").split()))
"""The quantiles of a normal distribution that the paper on QLoRA lists."""


def blockwise(x: Tensor, values: Sequence[float]) -> Tensor:
    """Return each element as the nearest of ascending values times the greatest magnitude of its row."""
    scale = x.abs().amax(-1, keepdim=True)
    steps = (torch.where(x / scale > (a + b) / 2, b - a, 0.0) for a, b in pairwise(values))
    return scale * (values[0] + sum(steps))


def ordered(a: Tensor) -> Tensor:
    """Return boxes of two corners with the lower one first."""
    return torch.cat([torch.minimum(a[..., :2], a[..., 2:]), torch.maximum(a[..., :2], a[..., 2:])], -1)


def cornered(a: Tensor) -> Tensor:
    """Return boxes of a corner, a width and a height as those of two corners."""
    return torch.cat([a[:, :2], a[:, :2] + a[:, 2:]], 1)


def around(a: Tensor) -> Tensor:
    """Return boxes of a centre, a width and a height as those of two corners."""
    return torch.cat([a[:, :2] - a[:, 2:] / 2, a[:, :2] + a[:, 2:] / 2], 1)


def _sides(a: Tensor, b: Tensor, outer: bool = False) -> Tensor:
    least, most = (torch.minimum, torch.maximum) if outer else (torch.maximum, torch.minimum)
    return most(a[..., 2:], b[..., 2:]) - least(a[..., :2], b[..., :2])


def _overlap(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return the areas that boxes have in common, and those of both together."""
    both = _sides(a, b).clamp(min=0).prod(-1)
    return both, sum((box[..., 2:] - box[..., :2]).prod(-1) for box in (a, b)) - both


def iou(a: Tensor, b: Tensor, eps: float = 0.0) -> Tensor:
    """Return the areas that boxes have in common over those that they have together."""
    both, union = _overlap(a, b)
    return both / (union + eps)


def giou(a: Tensor, b: Tensor, eps: float = 0.0) -> Tensor:
    """Return the same, less the share of the box around both that neither covers."""
    around, union = _sides(a, b, True).prod(-1), _overlap(a, b)[1]
    return iou(a, b, eps) - (around - union) / (around + eps)


def apart(a: Tensor, b: Tensor, eps: float = 1e-7) -> Tensor:
    """Return the squared distance of the centres of boxes over the squared diagonal of the box around both."""
    middles = (a[..., :2] + a[..., 2:]) / 2 - (b[..., :2] + b[..., 2:]) / 2
    return middles.square().sum(-1) / (_sides(a, b, True).square().sum(-1) + eps)


def aspect(a: Tensor, b: Tensor, eps: float = 1e-7) -> Tensor:
    """Return what boxes of other proportions lose in complete IoU."""
    own, other = (torch.atan((box[..., 2] - box[..., 0]) / (box[..., 3] - box[..., 1])) for box in (a, b))
    v = 4 / math.pi**2 * (other - own) ** 2
    return v * v / (1 - iou(a, b, eps) + v + eps)


def focal(x: Tensor, t: Tensor, alpha: float | None = 0.25) -> Tensor:
    """Return the focal loss of logits with an exponent of 2."""
    p = x.sigmoid()
    loss = F.binary_cross_entropy_with_logits(x, t, reduction="none") * (1 - (p * t + (1 - p) * (1 - t))) ** 2
    return loss if alpha is None else (alpha * t + (1 - alpha) * (1 - t)) * loss


def pooled(x: Tensor, down: Sequence[float], across: Sequence[float]) -> Tensor:
    """Return the mean of the bilinear values of images at the crossings of rows and columns, all of them inside."""
    row = sum(x[..., int(y) + i, :] * abs(1 - i - y % 1) for y in down for i in (0, 1)) / len(down)
    return sum(row[..., int(at) + j] * abs(1 - j - at % 1) for at in across for j in (0, 1)) / len(across)


def frozen(ops: Any, x: Tensor, *known: Tensor) -> Tensor:
    """Return a batch norm of torchvision with factors, offsets, means and variances that never change."""
    norm = ops.FrozenBatchNorm2d(x.shape[1])
    norm.load_state_dict(dict(zip(norm.state_dict(), known, strict=True)), assign=True)  # in their order
    return norm(x)
