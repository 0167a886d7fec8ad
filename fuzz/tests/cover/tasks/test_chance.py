"""Right kernels that draw random numbers pass, and each way to draw them wrongly is found."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fuzz

_SHARE = 0.9
_X = np.random.default_rng(3).standard_normal((48, 256)).astype(np.float32)
_GAIN = np.linspace(0.5, 2.0, 256, dtype=np.float32)


def dropout(x: Any, keep: Any) -> Any:
    return x * keep / _SHARE


def with_gain(x: Any, gain: Any, keep: Any) -> Any:
    return x + x * gain * keep / _SHARE


def _mask(shape: tuple[int, ...], seed: int, share: float = _SHARE) -> Any:
    return np.random.default_rng(seed).random(shape) < share


def _dropped(x: Any, mask: Any) -> Any:
    return (x * mask / np.float32(_SHARE)).astype(np.float32)


def _right(x: Any, seed: int) -> Any:
    return _dropped(x, _mask(x.shape, seed))


def _gain(x: Any, gain: Any, seed: int) -> Any:
    return x + x * gain * _mask(x.shape, seed) * np.float32(1 / _SHARE)


def _of_generators(x: Any) -> Any:
    return torch.nn.functional.dropout(x, 1 - _SHARE, training=True)


def _rounded_once(x: Any) -> Any:
    return _of_generators(x.float()).to(x.dtype)


@pytest.mark.some(3)
@pytest.mark.parametrize(
    ("kernel", "reference", "inputs"),
    [
        (_right, dropout, [_X]),
        (_gain, with_gain, {"x": _X, "gain": _GAIN}),
        (_of_generators, dropout, [torch.from_numpy(_X)]),
        (_rounded_once, dropout, [torch.from_numpy(_X).bfloat16()]),
        (lambda x, seed: _right(np.round(x), seed), lambda x, keep: torch.round(x) * keep / _SHARE, [_X]),
    ],
    ids=["numpy", "gain", "generators", "bf16", "zeros"],
)
def test_a_right_kernel_passes(kernel: Callable[..., Any], reference: Callable[..., Any], inputs: Any) -> None:
    found = fuzz.check_random(kernel, reference, inputs, share=_SHARE)
    assert found.calls == 16
    assert found.kept < found.seen <= 16 * _X.size
    assert found.within[0] <= found.kept / found.seen <= found.within[1]


def test_right_kernels_pass_with_any_share_and_few_elements() -> None:
    for share in (0.0, 0.01, 0.5, 1.0):
        for shape in ((1,), (3, 5), (64, 64)):
            x = np.ones(shape, np.float32)
            fuzz.check_random(
                lambda x, seed, share=share: x * _mask(x.shape, seed, share) * np.float32(2.0),
                lambda x, keep: x * keep * 2.0, [x], share=share, calls=5,
            )  # fmt: skip


def _every_row(x: Any, seed: int) -> Any:
    return _dropped(x, _mask(x.shape[-1:], seed))


def _every_column(x: Any, seed: int) -> Any:
    return _dropped(x, _mask((len(x), 1), seed))


def _tile(x: Any, seed: int) -> Any:
    return _dropped(x, np.tile(_mask((len(x), 64), seed), 4))


def _tail(x: Any, seed: int) -> Any:
    mask = _mask(x.shape, seed)
    mask[:, -3:] = True
    return _dropped(x, mask)


def _pairs(x: Any, seed: int) -> Any:
    return _dropped(x, np.repeat(_mask((len(x), x.shape[1] // 2), seed), 2, axis=1))


def _rows(x: Any, seed: int) -> Any:
    return _dropped(x, np.stack([_mask(x.shape[1:], seed + at) for at in range(len(x))]))


_CALLS = [0]


def _forgetful(x: Any, seed: int) -> Any:
    _CALLS[0] += 1
    return _right(x, _CALLS[0])


_WRONG: dict[str, tuple[Callable[..., Any], str]] = {
    "not scaled": (lambda x, seed: x * _mask(x.shape, seed), "if it is kept, or .* if it is dropped"),
    "other share": (lambda x, seed: _dropped(x, _mask(x.shape, seed, 0.89)), "kept: .* must be 90.0000%"),
    "inverted": (lambda x, seed: _dropped(x, ~_mask(x.shape, seed)), "kept: .* must be 90.0000%"),
    "seed left out": (lambda x, seed: _right(x, 1), "alike in two calls with other seeds"),
    "other seed": (_forgetful, "two calls with the same seed differ"),
    "one mask for rows": (_every_row, "alike 256 elements apart"),
    "one number for a row": (_every_column, "alike 1 element apart"),
    "tiles": (_tile, "alike 64 elements apart"),
    "tail": (_tail, "kept at place 25. of the last axis: 720 of 720"),
    "two at a time": (_pairs, "alike 1 element apart"),
    "seed + row": (_rows, "alike 256 elements back in a call with seed s and one with seed s \\+ 1"),
    "nothing": (lambda x, seed: np.zeros_like(x), "kept: 0 of"),
}


@pytest.mark.some(6)
@pytest.mark.parametrize("name", _WRONG)
def test_a_wrong_kernel_is_told_how_it_is_wrong(name: str) -> None:
    kernel, said = _WRONG[name]
    with pytest.raises(fuzz.CheckFailed, match=said):
        fuzz.check_random(kernel, dropout, [_X], share=_SHARE)


def test_what_passes_of_shares_is_told_and_more_calls_see_less() -> None:
    def other(x: Any, seed: int) -> Any:
        return _dropped(x, _mask(x.shape, seed, _SHARE - 0.003))

    few, many = (fuzz.check_random(_right, dropout, [_X], share=_SHARE, calls=calls) for calls in (4, 256))
    assert few.within[0] < _SHARE - 0.003 < many.within[0]
    fuzz.check_random(other, dropout, [_X], share=_SHARE, calls=4)
    with pytest.raises(fuzz.CheckFailed, match="kept: "):
        fuzz.check_random(other, dropout, [_X], share=_SHARE, calls=256)


def test_torch_rounds_the_factor_of_bf16_before_it_multiplies() -> None:
    """So dropout of bf16 on a processor returns 0.16% too little on average: 1 / 0.9 is 1.109375 there."""
    with pytest.raises(fuzz.CheckFailed, match="if it is kept"):
        fuzz.check_random(_of_generators, dropout, [torch.from_numpy(_X).bfloat16()], share=_SHARE)


class _Own(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, x: Any, moved: int) -> Any:
        mask = torch.rand_like(x) < _SHARE
        ctx.mask = mask.roll(moved, -1)
        return x * mask / _SHARE

    @staticmethod
    def backward(ctx: Any, *given: Any) -> Any:
        return given[0] * ctx.mask / _SHARE, None


def test_gradients_use_the_mask_of_their_output() -> None:
    x = torch.from_numpy(_X)
    fuzz.check_random(lambda x: _Own.apply(x, 0), dropout, [x], share=_SHARE, gradient=True)
    with pytest.raises(fuzz.CheckFailed, match="with the mask of the output, a gradient is wrong"):
        fuzz.check_random(lambda x: _Own.apply(x, 1), dropout, [x], share=_SHARE, gradient=True)
    with pytest.raises(fuzz.CheckFailed, match="the output has no gradient"):
        fuzz.check_random(lambda x: _of_generators(x.detach()), dropout, [x], share=_SHARE, gradient=True)


def test_what_cannot_be_judged_so_is_said() -> None:
    def summed(x: Any, keep: Any) -> Any:
        return (x * keep / _SHARE).cumsum(-1)

    with pytest.raises(fuzz.CheckError, match="depends on several of keep"):
        fuzz.check_random(_right, summed, [_X], share=_SHARE)
    with pytest.raises(fuzz.CheckError, match="must take 'keep' and, in its order, the inputs of the kernel: x"):
        fuzz.check_random(_right, dropout, [_X, _X], share=_SHARE)
    with pytest.raises(fuzz.CheckError, match="share must be from 0 to 1"):
        fuzz.check_random(_right, dropout, [_X], share=10)
    with pytest.raises(fuzz.CheckError, match="must be a tensor of torch"):
        fuzz.check_random(_right, dropout, [_X], share=_SHARE, gradient=True)


def test_philox_is_that_of_its_authors_and_of_triton() -> None:
    """The words of a counter and a key of zeros are in the test vectors that its authors publish."""
    assert [f"{word[0]:08x}" for word in fuzz.philox(0, np.array([0]))] == [
        "6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8",
    ]  # fmt: skip


_DRAWS = """
import sys, numpy, torch, triton, triton.language as tl

@triton.jit
def draws(seed, out, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    tl.store(out + places, tl.rand(seed, places))

out = torch.empty(1024)
draws[(1,)](12345678901, out, BLOCK=1024)
sys.stdout.buffer.write(out.numpy().tobytes())
"""


def test_uniform_numbers_are_those_of_triton(tmp_path: Path) -> None:
    (tmp_path / "draws.py").write_text(_DRAWS)
    ran = subprocess.run(
        [sys.executable, "draws.py"], cwd=tmp_path, env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True,
        check=True,
    )  # fmt: skip
    wanted = np.frombuffer(ran.stdout, np.float32)
    assert wanted.size == 1024
    assert np.array_equal(wanted, fuzz.philox_uniform(12345678901, np.arange(1024)))
