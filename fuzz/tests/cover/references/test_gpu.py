"""What a GPU does where there is one, tried on the processor by the same code; the nights try it on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fuzz.references import gpu
from fuzz.references.rerun import replayed, torch_ways, ways_of


def _softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def _product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(x @ w + torch.arange(w.shape[1]))


def _solved(x: torch.Tensor) -> torch.Tensor:
    return torch.linalg.solve(x @ x.mT + torch.eye(len(x)), x).cumsum(0)


def _of(**shapes: tuple[int, ...]) -> Mapping[str, NDArray[Any]]:
    random = np.random.default_rng(5)
    return {name: random.standard_normal(shape) for name, shape in shapes.items()}


@pytest.mark.parametrize(
    ("reference", "arrays"),
    [(_softmax, _of(x=(16, 300))), (_product, _of(x=(24, 64), w=(64, 48))), (_solved, _of(x=(24, 24)))],
)
def test_errors_that_torch_draws_allow_as_much_as_those_of_numpy(
    reference: Callable[..., Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Numbers drawn by torch on the processor stand in for those on a GPU."""
    [here], [there] = replayed(ways_of(reference), arrays), replayed(torch_ways(reference, "cpu"), arrays)
    assert np.array_equal(here.value, there.value)
    share = there.allowed / here.allowed
    assert 0.6 < np.median(share) < 1.6
    assert share.min() > 0.2
    assert share.max() < 5.0


def test_only_large_inputs_go_to_the_gpu_and_the_processor_does_what_it_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gpu, "MANY", 1000)
    monkeypatch.setattr(gpu, "GPU", "cpu")
    ran, refuses = list[str](), list[bool]()

    def reference(x: torch.Tensor) -> torch.Tensor:
        if refuses and ran[-1:] == ["there"]:
            ran.append("refused")
            raise torch.OutOfMemoryError("no memory")
        return x * 2

    def there(arrays: Mapping[str, NDArray[Any]]) -> Sequence[Any]:
        ran.append("there")
        return torch_ways(reference, "cpu").exact(arrays)

    ways = replace(ways_of(reference), on_gpu=replace(torch_ways(reference, "cpu"), exact=there))
    for size, wanted in ((999, []), (1000, ["there"]), (1000, ["there", "refused"])):
        ran.clear()
        refuses[:] = [True] * ("refused" in wanted)
        [found] = replayed(ways, {"x": np.ones(size)})
        assert (found.value == 2).all()
        assert ran == wanted
