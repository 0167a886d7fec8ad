"""Outputs that are inputs of the next call: optimisers, moving averages, running statistics and caches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch

import fuzz

Kernel = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("quick_checks")


def adamw(p: Any, m: Any, v: Any, g: Any, lr: float = 0.01, decay: float = 0.1) -> Any:
    """Return a step of AdamW without its correction of the first steps."""
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    p = p * (1.0 - lr * decay) - lr * m / (torch.sqrt(v) + 1e-8)
    return p, m, v


def momentum(p: Any, b: Any, g: Any) -> Any:
    """Return a step of gradient descent with momentum."""
    b = 0.9 * b + g
    return {"p": p - 0.1 * b, "b": b}


def lion(p: Any, m: Any, g: Any) -> Any:
    """Return a step of Lion."""
    return p - 0.01 * torch.sign(0.9 * m + 0.1 * g), 0.99 * m + 0.01 * g


def average(shadow: Any, x: Any) -> None:
    """Write a moving average in place."""
    shadow.mul_(0.99).add_(x, alpha=0.01)


def normed(running: Any, x: Any) -> Any:
    """Return what is centred by a running mean, which is updated in place."""
    running.mul_(0.9).add_(x.mean(0), alpha=0.1)
    return x - running


def stored(cache: Any, key: Any, q: Any, at: int = 2) -> Any:
    """Return scores of a query with a cache that holds the last keys, the newest first."""
    cache = torch.cat([key[None], cache[:-1]])
    return cache @ q, cache


def adamw_in_place(p: Any, m: Any, v: Any, g: Any, lr: float = 0.01, decay: float = 0.1) -> None:
    m.mul_(0.9).add_(g, alpha=0.1)
    v.mul_(0.999).addcmul_(g, g, value=0.001)
    p.mul_(1.0 - lr * decay).addcdiv_(m, v.sqrt().add_(1e-8), value=-lr)


def _adamw_in_numpy(p: Any, m: Any, v: Any, g: Any, lr: float = 0.01, decay: float = 0.1) -> None:
    m *= np.float32(0.9)
    m += np.float32(0.1) * g
    v *= np.float32(0.999)
    v += np.float32(0.001) * g * g
    p *= np.float32(1.0 - lr * decay)
    p -= np.float32(lr) * m / (np.sqrt(v) + np.float32(1e-8))


def _average_in_numpy(shadow: Any, x: Any) -> None:
    shadow *= np.float32(0.99)
    shadow += np.float32(0.01) * x


def _descend(p: Any, b: Any, g: Any) -> None:
    b.mul_(0.9).add_(g)
    p.sub_(b, alpha=0.1)


_STATE: Mapping[Kernel, Any] = {
    adamw: {"p": 0, "m": 1, "v": 2}, momentum: {"p": "p", "b": "b"}, lion: {"p": 0, "m": 1}, average: ("shadow",),
    normed: ("running",), stored: {"cache": 1},
}  # fmt: skip
_EACH = {adamw: "g", momentum: "g", lion: "g", average: "x", normed: "x", stored: "key"}
_SHAPES = {
    adamw: "p=n, m=n, v=n, g=t n", momentum: "p=n, b=n, g=t n", lion: "p=n, m=n, g=t n", average: "shadow=n, x=t n",
    normed: "running=n, x=t b n", stored: "cache=s d, key=t d, q=d",
}  # fmt: skip
_PLACE = ("p", "m", "v")
RIGHT: list[tuple[Kernel, Kernel, Any, str]] = [
    (adamw, adamw, _STATE[adamw], "torch"), (adamw, adamw_in_place, _PLACE, "torch"),
    (adamw, _adamw_in_numpy, _PLACE, "numpy"),
    (momentum, momentum, _STATE[momentum], "torch"),
    (momentum, lambda p, b, g: (p - 0.1 * (0.9 * b + g), 0.9 * b + g), {"p": 0, "b": 1}, "torch"),
    (momentum, _descend, ("p", "b"), "torch"),
    (lion, lion, _STATE[lion], "torch"), (average, average, ("shadow",), "torch"),
    (average, _average_in_numpy, ("shadow",), "numpy"),
    (average, lambda shadow, x: 0.99 * shadow + 0.01 * x, {"shadow": 0}, "torch"),
    (normed, normed, ("running",), "torch"), (stored, stored, {"cache": 1}, "torch"),
]  # fmt: skip


class _Kept:
    """Kernels that keep what they should not."""

    first: Any = None
    calls = 0

    def moments(self, p: Any, m: Any, v: Any, g: Any) -> Any:
        """Takes the state of the first call in each."""
        self.first = (m, v) if self.calls % 3 == 0 else self.first
        self.calls += 1
        m, v = self.first
        return adamw(p, m, v, g)

    def buffer(self, cache: Any, key: Any, q: Any) -> Any:
        """Returns the same memory each time."""
        scores, cache = stored(cache, key, q)
        if self.first is None or self.first.shape != scores.shape:
            self.first = torch.empty_like(scores)
        self.first.copy_(scores)
        return self.first, cache


def _lost(p: Any, m: Any, v: Any, g: Any) -> None:
    m = m * 0.9 + 0.1 * g
    adamw_in_place(p, m.clone(), v, g)


def _moved_first(p: Any, b: Any, g: Any) -> Any:
    return {"p": p - 0.1 * b, "b": 0.9 * b + g}


def _dead(p: Any, b: Any, g: Any) -> Any:
    return {"p": p - 0.1 * (0.9 * b + g), "b": b}


def _updated_first(p: Any, m: Any, g: Any) -> Any:
    m = 0.99 * m + 0.01 * g
    return p - 0.01 * torch.sign(0.9 * m + 0.1 * g), m


def _copied(shadow: Any, x: Any) -> None:
    shadow = shadow * 0.99
    shadow.add_(x, alpha=0.01)


def _after(running: Any, x: Any) -> Any:
    found = x - running
    running.mul_(0.9).add_(x.mean(0), alpha=0.1)
    return found


def _oldest(cache: Any, key: Any, q: Any) -> Any:
    return cache @ q, torch.cat([key[None], cache[:-1]])


WRONG: dict[str, tuple[Kernel, Kernel, Any]] = {
    "moments of the first call": (adamw, _Kept().moments, _STATE[adamw]),
    "moment lost": (adamw, _lost, _PLACE),
    "momentum of the last step": (momentum, _moved_first, _STATE[momentum]),
    "momentum never stored": (momentum, _dead, _STATE[momentum]),
    "moment updated first": (lion, _updated_first, _STATE[lion]),
    "average in a copy": (average, _copied, ("shadow",)),
    "statistics of the last batch": (normed, _after, ("running",)),
    "scores of the old cache": (stored, _oldest, {"cache": 1}),
    "one buffer for all outputs": (stored, _Kept().buffer, {"cache": 1}),
}


def _checked(kernel: Kernel, reference: Kernel, state: Any, **given: Any) -> None:
    each = (_EACH[reference],)
    fuzz.check(
        fuzz.repeated(kernel, state, each=each), reference=fuzz.repeated(reference, _STATE[reference], each=each),
        shapes=_SHAPES[reference] + ", t=3", **given,
    )  # fmt: skip


@pytest.mark.some(1)
@pytest.mark.parametrize("at", range(len(RIGHT)))
def test_right_steps_pass_one_after_the_other(at: int) -> None:
    reference, kernel, state, arrays = RIGHT[at]
    _checked(kernel, reference, state, arrays=arrays)


@pytest.mark.some(1)
@pytest.mark.parametrize("name", WRONG)
def test_wrong_ones_are_found_whose_first_call_may_be_right(name: str) -> None:
    reference, kernel, state = WRONG[name]
    with pytest.raises(fuzz.CheckFailed, match="must be"):
        _checked(kernel, reference, state)
