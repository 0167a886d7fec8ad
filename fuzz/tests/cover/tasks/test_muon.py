"""Muon's step: a momentum, and five steps of Newton and Schulz towards an orthogonal matrix, in f32 and bf16. No
formula is read from it; a replay judges it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import fuzz
from fuzz.tasks.check.setup import GIVEN
from oracles.tests.common.whole import quarter

Kernel = Callable[..., Any]


@pytest.fixture(autouse=True)
def _unexplained(monkeypatch: pytest.MonkeyPatch) -> None:
    """A case takes 0.1 s: causes are looked for in cheaper tests."""
    monkeypatch.setattr(GIVEN, "options", replace(GIVEN.options, explain_s=0.0))


_COEFFICIENTS = 3.4445, -4.7750, 2.0315


def orthogonal(g: Any) -> Any:
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g / (g.norm() + 1e-7)
    if g.size(0) > g.size(1):
        x = x.T
    for _ in range(5):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if g.size(0) > g.size(1) else x


def in_bf16(g: Any) -> Any:
    return orthogonal(g.bfloat16())


def in_numpy(g: Any) -> Any:
    a, b, c = _COEFFICIENTS
    x = g / (np.linalg.norm(g) + 1e-7)
    x = x.T if g.shape[0] > g.shape[1] else x
    for _ in range(5):
        gram = x @ x.T
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x.T if g.shape[0] > g.shape[1] else x


def step(w: Any, g: Any, m: Any) -> Any:
    m = 0.95 * m + g
    return w - 0.02 * max(1, w.size(0) / w.size(1)) ** 0.5 * orthogonal(g + 0.95 * m), m


def _iterated(
    g: Any, factors: Any = _COEFFICIENTS, *, steps: int = 5, eps: float = 1e-7, norm: Any = torch.norm
) -> Any:
    a, b, c = factors
    x = g / (norm(g) + eps)
    for _ in range(steps):  # on either side, the result is the same
        gram = x.mT @ x
        x = a * x + x @ (b * gram + c * gram @ gram)
    return x


def _added(g: Any) -> Any:
    a, b, c = _COEFFICIENTS
    x = g / (g.norm() + 1e-7)
    for _ in range(5):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x


def _stepped(w: Any, g: Any, m: Any, *, beta: float = 0.95, tall: bool = True) -> Any:
    m = beta * m + g
    sides = (0, 1) if tall else (1, 0)
    return w - 0.02 * max(1, w.size(sides[0]) / w.size(sides[1])) ** 0.5 * orthogonal(g + beta * m), m


def _of_old_momentum(w: Any, g: Any, m: Any) -> Any:
    return w - 0.02 * max(1, w.size(0) / w.size(1)) ** 0.5 * orthogonal(g + 0.95 * m), 0.95 * m + g


def _averaged(w: Any, g: Any, m: Any) -> Any:
    m = 0.95 * m + 0.05 * g
    return step(w, g, m)[0], m


def _simple(w: Any, g: Any, m: Any) -> Any:
    m = 0.95 * m + g
    return w - 0.02 * max(1, w.size(0) / w.size(1)) ** 0.5 * orthogonal(m), m


RIGHT: list[tuple[Kernel, Kernel]] = [
    (orthogonal, orthogonal), (orthogonal, in_numpy), (orthogonal, _added), (orthogonal, _iterated),
    (in_numpy, orthogonal),
    (in_bf16, in_bf16), (in_bf16, lambda g: orthogonal(g.bfloat16().float()).bfloat16()),
    (in_bf16, lambda g: orthogonal(g).bfloat16()), (in_bf16, lambda g: _iterated(g.bfloat16())), (step, step),
]  # fmt: skip
WRONG: dict[str, tuple[Kernel, Kernel]] = {
    "a coefficient off by a thousandth": (orthogonal, lambda g: _iterated(g, (3.4479, -4.7750, 2.0315))),
    "digits exchanged": (orthogonal, lambda g: _iterated(g, (3.4445, -4.7750, 2.0351))),
    "four steps": (orthogonal, lambda g: _iterated(g, steps=4)),
    "six steps": (orthogonal, lambda g: _iterated(g, steps=6)),
    "a larger eps": (orthogonal, lambda g: _iterated(g, eps=1e-3)),
    "another norm": (orthogonal, lambda g: _iterated(g, norm=lambda x: torch.linalg.matrix_norm(x, 1))),
    "a tall one stays transposed": (
        orthogonal, lambda g: orthogonal(g).T.contiguous().view(g.shape) if g.size(0) > g.size(1) else orthogonal(g)),
    "in bf16": (orthogonal, lambda g: in_bf16(g).float()),
    "bf16: four steps": (in_bf16, lambda g: _iterated(g.bfloat16(), steps=4)),
    "bf16: six steps": (in_bf16, lambda g: _iterated(g.bfloat16(), steps=6)),
    "bf16: without the square": (in_bf16, lambda g: _iterated(g.bfloat16(), (3.4445, -4.7750, 0.0))),
    "bf16: another norm": (in_bf16, lambda g: _iterated(g.bfloat16(), norm=lambda x: x.float().abs().sum())),
    "bf16: a tall one stays transposed": (
        in_bf16, lambda g: in_bf16(g).T.contiguous().view(g.shape) if g.size(0) > g.size(1) else in_bf16(g)),
    "bf16: a coefficient of 2": (in_bf16, lambda g: _iterated(g.bfloat16(), (2.0, -4.7750, 2.0315))),
    "step: of the momentum alone": (step, _simple),
    "step: of the old momentum": (step, _of_old_momentum),
    "step: an average for a momentum": (step, _averaged),
    "step: another beta": (step, lambda w, g, m: _stepped(w, g, m, beta=0.9)),
    "step: sides exchanged": (step, lambda w, g, m: _stepped(w, g, m, tall=False)),
    "step: momentum not kept": (step, lambda w, g, m: (step(w, g, m)[0], m)),
}  # fmt: skip


def checked(kernel: Kernel, reference: Kernel, seed: int = 1, cases: int = 40) -> None:
    shapes = "w=m n, g=m n, m=m n" if reference is step else "g=m n"
    fuzz.check(kernel, reference=reference, oracle="replay", shapes=shapes, seed=seed, max_cases=cases)


@pytest.mark.some(4)
@pytest.mark.parametrize(("reference", "kernel"), RIGHT)
def test_right_steps_pass(reference: Kernel, kernel: Kernel) -> None:
    checked(kernel, reference, cases=quarter(40))


@pytest.mark.some(4)
@pytest.mark.parametrize("name", WRONG)
def test_wrong_steps_are_found(name: str) -> None:
    reference, kernel = WRONG[name]
    with pytest.raises(fuzz.CheckFailed, match=r"must be|returned"):
        checked(kernel, reference, cases=quarter(40))


def test_the_16_bits_of_a_reference_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(fuzz.CheckFailed, match="as the 16 bits in which"):
        checked(lambda g: in_bf16(g) * 2, in_bf16, cases=4)
