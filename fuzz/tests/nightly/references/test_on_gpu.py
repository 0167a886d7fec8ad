"""What a GPU does for the oracle is what the processor does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import fuzz
from fuzz.references import gpu
from fuzz.references.rerun import Ways, replayed, ways_of
from oracles.formula.exact import contraction

pytestmark = pytest.mark.skipif(not gpu.has_gpu(), reason="torch finds no GPU")
F = torch.nn.functional


def _network(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.group_norm(F.relu(F.conv2d(x, w, padding=1)), 4)


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def _norm(x: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, x.shape[1:]).cumsum(-1)


_SHAPES: Mapping[Callable[..., Any], Mapping[str, tuple[int, ...]]] = {
    _network: {"x": (16, 16, 66, 66), "w": (16, 16, 3, 3)},
    _attention: {"q": (2, 4, 2048, 64), "k": (2, 4, 2048, 64), "v": (2, 4, 2048, 64)},
    _norm: {"x": (16, 64, 1024)},
}


@pytest.mark.parametrize("reference", _SHAPES, ids=lambda each: each.__name__)
def test_replays_allow_what_they_allow_on_the_processor(reference: Callable[..., Any]) -> None:
    random = np.random.default_rng(1)
    arrays: dict[str, NDArray[Any]] = {
        name: random.standard_normal(shape) for name, shape in _SHAPES[reference].items()
    }
    ways = ways_of(reference)
    assert isinstance(ways.on_gpu, Ways)
    [here], [there] = replayed(Ways(ways.exact, ways.single, ways.noisy, ways.takes), arrays), replayed(ways, arrays)
    assert gpu.is_large(arrays)
    assert np.nanmax(np.abs(here.value - there.value)) <= 1e-9 * np.nanmax(np.abs(here.value))
    share = there.allowed / here.allowed
    assert 0.8 < np.nanmedian(share) < 1.25
    assert np.isnan(share).mean() < 0.01  # an element that rounding may turn is judged by neither


def test_bounds_of_large_products_are_those_of_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = (torch.randn(1024, 1024, dtype=torch.bfloat16, device=gpu.GPU) for _ in range(2))
    there, product = fuzz.bound(torch.matmul, (a, b), random=True), contraction.on_device
    assert there.low.device.type == gpu.GPU
    assert product is not None
    assert product(np.ones((1, 1024, 512)), np.ones((1, 1024, 512))) is not None
    monkeypatch.setattr(gpu, "PRODUCTS", 1 << 60)
    assert product(np.ones((1, 1024, 512)), np.ones((1, 1024, 512))) is None
    here = fuzz.bound(torch.matmul, (a.cpu(), b.cpu()), random=True)
    for one, other in ((there.low.cpu(), here.low), (there.high.cpu(), here.high)):
        far = ((one - other) / other).abs()
        assert far.max() <= 2.0**-7  # one step of bf16
        assert (far > 0).float().mean() < 1e-3
