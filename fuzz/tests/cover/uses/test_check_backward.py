"""Kernels of gradients are held against the gradient of what the forward kernel computes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fuzz
from fuzz.tests.common.own_pack import unknown_afterwards
from fuzz.uses.check.plan import GIVEN, Options
from fuzz.uses.check.reference import read

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(GIVEN, "options", Options(output=tmp_path / "findings", explain_s=0.0))
    with unknown_afterwards():
        yield


def rms_norm(x: Any, w: Any) -> Any:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def by_hand(x: Any, w: Any, dy: Any) -> Any:
    r = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
    h, g = x * r, dy * w
    dx = r * (g - h * (h * g).mean(-1, keepdim=True))
    return dx, (dy * h).reshape(-1, x.shape[-1]).sum(0)


def no_projection(x: Any, w: Any, dy: Any) -> Any:
    """The scale taken for a constant."""
    _, dw = by_hand(x, w, dy)
    return dy * w * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6), dw


def test_a_backward_kernel_is_held_against_the_gradient_of_its_forward() -> None:
    """The dimensions of dy are those of what the forward returns."""
    gradient, shapes = fuzz.backward(rms_norm), "x=... n, w=n"
    fuzz.check(by_hand, reference=gradient, shapes=shapes, max_cases=12, seed=1)
    with pytest.raises(fuzz.CheckFailed, match="FAIL  no_projection  wrong values"):
        fuzz.check(no_projection, reference=gradient, shapes=shapes, max_cases=12, seed=1)


def conv(x: Any, w: Any) -> Any:
    return torch.nn.functional.conv1d(x, w, padding=1)


def test_extents_are_fixed_for_a_check() -> None:
    """With windows of three the output is as long as the input."""
    found = read(fuzz.backward(conv), "x=b c n, w=m c k", None, None, None, fixed={"k": 3})
    assert [(each.name, each.dims) for each in found.derived.op.inputs] == [
        ("x", "b c n"),
        ("w", "m c k"),
        ("dy", "b m n"),
    ]
    assert found.derived.op.fixed == {"k": 3}
