"""State: steps of optimisers, running statistics, averages, recurrent cells; three calls, each with the last state."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import numpy as np
import torch

import fuzz
from fuzz.tests.common.rows.table import right, wrong


def adamw(p, m, v, g, step):
    """A step of AdamW; its number is the first element of `step`, from 1 on."""
    p = p * (1 - 1e-3 * 1e-2)
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    above = m / (1 - 0.9**step)
    below = torch.sqrt(v / (1 - 0.999**step)) + 1e-8
    return p - 1e-3 * above / below, m, v


def adam_steps(p, g):
    """Three steps from no moments."""
    m, v = torch.zeros_like(p), torch.zeros_like(p)
    for step in range(3):
        p, m, v = adamw(p, m, v, g[step], step + 1)
    return p, m, v


def lion(p, m, g):
    """A step of Lion."""
    c = 0.9 * m + 0.1 * g
    return p - 1e-2 * torch.sign(c), 0.99 * m + 0.01 * g


def momentum(p, buf, g):
    """A step of SGD with Nesterov's momentum."""
    buf = 0.9 * buf + g
    return p - 0.1 * (g + 0.9 * buf), buf


def running(mean, x):
    """Normalised columns, and the next running mean."""
    return x - x.mean(0), 0.9 * mean + 0.1 * x.mean(0)


def cell(h, x, w, u):
    """A minimal gated unit."""
    f = torch.sigmoid(x @ w + h @ u)
    return (1 - f) * h + f * torch.tanh(x @ w)


def cached(cache, x):
    """The newest row in front, the oldest one lost."""
    return torch.cat([x[None], cache[:-1]])


def delta(s, k, v, b):
    """One step of the delta rule."""
    return s + b * torch.outer(k, v - k @ s)


def _steps(reference, state, each, shapes):
    names = list(state)

    def checks(kernel, seed):
        fuzz.check(
            fuzz.repeated(kernel, state=state, each=each),
            reference=fuzz.repeated(reference, state=state, each=each),
            shapes=shapes,
            seed=seed,
        )

    assert names
    return checks


def _in_place(reference, state, each, shapes):
    def checks(kernel, seed):
        fuzz.check(
            fuzz.repeated(kernel, state=[*state], each=each),
            reference=fuzz.repeated(reference, state=state, each=each),
            shapes=shapes,
            seed=seed,
        )

    return checks


def checks_adam(kernel, seed):
    fuzz.check(kernel, reference=adam_steps, shapes="p=n, g=t n, t=3", seed=seed)


_LION = {"p": 0, "m": 1}, ["g"], "p=n, m=n, g=t n, t=3"
_MOMENTUM = {"p": 0, "buf": 1}, ["g"], "p=n, buf=n, g=t n, t=3"
_RUNNING = {"mean": 1}, ["x"], "mean=n, x=t b n, t=3"
_CELL = {"h": 0}, ["x"], "h=b d, x=t b e, w=e d, u=d d, t=3"
_CACHED = {"cache": 0}, ["x"], "cache=k n, x=t n, t=3"
_DELTA = {"s": 0}, ["k", "v"], "s=d e, k=t d, v=t e, b=1, t=3"


@right(checks_adam)
def adam_of_torch(p, g):
    own = torch.nn.Parameter(p.clone())
    steps = torch.optim.AdamW([own], lr=1e-3, weight_decay=1e-2)
    for each in g:
        own.grad = each.clone()
        steps.step()
    state = steps.state[own]
    return own.detach(), state["exp_avg"], state["exp_avg_sq"]


@right(_in_place(momentum, *_MOMENTUM))
def momentum_in_place(p, buf, g):
    buf *= np.float32(0.9)
    buf += g
    p -= np.float32(0.1) * (g + np.float32(0.9) * buf)


@right(_steps(cell, *_CELL))
def cell_by_one_product(h, x, w, u):
    own = x @ w
    f = 1 / (1 + torch.exp(-torch.cat([x, h], -1) @ torch.cat([w, u])))
    return h - f * h + f * torch.tanh(own)


@wrong("steps are counted from 0, so that the first has no correction", checks_adam)
def adam_from_zero(p, g):
    m, v = torch.zeros_like(p), torch.zeros_like(p)
    for step in range(3):
        p, m, v = adamw(p, m, v, g[step], max(step, 1))
    return p, m, v


@wrong("the decay is part of the gradient, as in Adam", checks_adam)
def adam_with_decay_in_gradient(p, g):
    own = torch.nn.Parameter(p.clone())
    steps = torch.optim.Adam([own], lr=1e-3, weight_decay=1e-2)
    for each in g:
        own.grad = each.clone()
        steps.step()
    state = steps.state[own]
    return own.detach(), state["exp_avg"], state["exp_avg_sq"]


@wrong("takes the sign of the next momentum", _steps(lion, *_LION))
def lion_of_next(p, m, g):
    m = 0.99 * m + 0.01 * g
    return p - 1e-2 * torch.sign(m), m


_kept: dict[torch.Size, torch.Tensor] = {}


@wrong("keeps the momentum of the first call with these extents", _steps(momentum, *_MOMENTUM))
def momentum_kept(p, buf, g):
    own = _kept.setdefault(p.shape, buf.clone())
    own.mul_(0.9).add_(g)
    return p - 0.1 * (g + 0.9 * own), own.clone()


@wrong("the mean is not corrected by the row that is a tail of 4", _steps(running, *_RUNNING))
def running_without_tail(mean, x):
    rows = len(x) // 4 * 4 or len(x)
    return x - x.mean(0), 0.9 * mean + 0.1 * x[:rows].mean(0)


@wrong("moves rows in place from the front, so that one row fills the cache", _in_place(cached, *_CACHED))
def cached_forwards(cache, x):
    for i in range(1, len(cache)):
        cache[i] = cache[i - 1]
    cache[0] = x


@wrong("decays what was written, not what was there", _steps(delta, *_DELTA))
def delta_of_next(s, k, v, b):
    s = s + b * torch.outer(k, v)
    return s - b * torch.outer(k, k @ s)
