"""References in NumPy are read as those in torch are, and what has no formula is named with its line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from fuzz.references.derive import derive
from fuzz.references.dims import UnreadableError
from fuzz.references.guard import value

Array = Any


def rms_norm(x: Array, w: Array, eps: float = 1e-6) -> Array:
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * w


def log_sum_exp(x: Array) -> Array:
    most = np.max(x, axis=1)
    return most + np.log(np.sum(np.exp(x - most[:, None]), axis=1))


def scores(q: Array, k: Array) -> Array:
    return np.einsum("id,jd->ij", q.astype(np.float32), k) / np.sqrt(q.shape[-1])


def leaky(x: Array) -> Array:
    return np.where(x > 0, x, 0.1 * np.maximum(x, -3.0)).clip(-1, 4)


def gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def reduced(x: Array) -> dict[str, Array]:
    inner = _helper(x)
    return {"low": np.minimum.reduce(inner, axis=-1), "sum": np.add.reduce(inner, axis=-1)}


def _helper(x: Array) -> Array:
    return np.subtract(2.0, x)


def ramp(x: Array) -> Array:
    n = x.shape[-1]
    falls = np.linspace(1, 0, n) + np.linspace(0, 2, n, endpoint=False)
    return np.array(x, dtype=np.float64) * falls * np.arange(n, dtype=np.float32) + np.ones(n) - np.full((n,), 0.5)


def triangles(x: Array) -> Array:
    n = x.shape[-1]
    below = np.where(np.tri(n, dtype=bool), x[..., None, :], 0.0).sum(-1)
    above = np.where(np.triu(np.ones((n, n), bool), 1), -1e30, x[..., None, :]).max(-1)
    return below + above + x @ np.eye(n, k=1) + np.identity(n)[0] + np.zeros(x.shape)


def parted(x: Array) -> Array:
    part, whole = np.modf(x)
    return part + 2.0 * whole


def turned(x: Array) -> Array:
    _, s, d = x.shape
    angle = np.arange(s)[:, None] / 10000 ** (np.arange(0, d, 2) / d)
    one, two = x[..., ::2], x[..., 1::2]
    return np.concatenate([one * np.cos(angle) - two * np.sin(angle), one * np.sin(angle) + two * np.cos(angle)], -1)


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("reference", "shapes"),
    [
        (rms_norm, "x=... n, w=n"), (log_sum_exp, "x=b n"), (scores, "q=i d, k=j d"), (leaky, "x=b n"),
        (gelu, "x=b n"), (reduced, "x=b n"), (ramp, "x=b n"), (triangles, "x=b n"), (turned, "x=b s 2d"),
        (parted, "x=b n"),
    ],
)  # fmt: skip
def test_the_formula_has_the_value_of_numpy_itself(reference: Callable[..., Any], shapes: str) -> None:
    found, random = derive(reference, shapes), np.random.default_rng(5)
    assert "same value as the reference in float64 at 3 sets of extents" in found.said
    sizes = {dim: 3 + at for at, dim in enumerate(found.op.named)} | {"...": 2, "d_twice": 6}
    arrays = {each.name: random.normal(size=[sizes[dim] for dim in each.axes]) for each in found.op.inputs}
    theirs = reference(**arrays)
    wanted_of = [*theirs.values()] if isinstance(theirs, dict) else [theirs]
    for mine, wanted in zip(value(found.op, arrays).values(), wanted_of, strict=True):
        # A cast of the reference is no part of its value.
        np.testing.assert_allclose(mine, wanted, rtol=1e-6 if reference is scores else 1e-12)


def test_casts_to_dtypes_that_numpy_lacks_are_read_as_those_of_torch() -> None:
    def in_numpy(x: Array) -> tuple[Array, Array]:
        return np.exp(x).astype(ml_dtypes.bfloat16).astype(np.float32) * x, (x * 2.0).astype(ml_dtypes.float8_e4m3fn)

    def in_torch(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.exp(x).to(torch.bfloat16).float() * x, (x * 2.0).to(torch.float8_e4m3fn)

    found, other = derive(in_numpy, "x=b n", name="same"), derive(in_torch, "x=b n", name="same")
    assert [each.dtype for each in found.op.outputs] == ["", "e4m3fn"]
    assert found.module.partition("def ")[2] == other.module.partition("def ")[2]
    assert "f.point(" in found.module


def squared_in_bf16(x: Array) -> Array:
    short = x.astype(ml_dtypes.bfloat16)
    return np.multiply(short, short)


def of_no_dtype_of_torch(x: Array) -> Array:
    return np.exp(x).astype(ml_dtypes.float8_e3m4)


def middle(x: Array) -> Array:
    return np.median(x, axis=-1)


def branching(x: Array) -> Array:
    return x if x.sum() > 0 else -x


def branching_on_rows(x: Array) -> Array:
    return x if np.max(x, axis=-1, keepdims=True)[:1, 0] > 0 else -x


def converted(x: Array) -> Array:
    return np.exp(_asarray(x, np.float64))


_asarray = np.asarray


def solved(x: Array) -> Array:
    return np.unwrap(x)


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        (middle, "aten.isnan (test_reference_arrays.py line "), (branching, "a value decides what it does"),
        (branching_on_rows, "a value decides what it does"), (converted, "it becomes an array of NumPy's own"),
        (solved, "numpy.unwrap has no formula"), (lambda x: np.cbrt(x), "numpy.cbrt has no formula"),
        (squared_in_bf16, "calculates in torch.bfloat16, which torch's NumPy"),
        (of_no_dtype_of_torch, "casts to float8_e3m4, which torch does not have"),
    ],
)  # fmt: skip
def test_what_has_no_formula_is_named(reference: Callable[..., Any], said: str) -> None:
    with pytest.raises(UnreadableError) as error:
        derive(reference, "x=b n")
    assert said in str(error.value)


def test_random_numbers_in_a_reference_end_no_process() -> None:
    """Their compiled code asks numpy.empty for an array, and takes what it gets for one."""
    drawn = np.random.default_rng(0)

    def filled(x: Any) -> Any:
        made = np.empty(x.shape)
        made[...] = np.random.rand(*x.shape)
        return x + made

    for random in (np.random.rand, lambda *shape: drawn.random(shape)):
        with pytest.raises(UnreadableError):
            derive(lambda x, random=random: x + random(*x.shape).astype(np.float32), "x=m n")
    with pytest.raises(UnreadableError):
        derive(filled, "x=m n")
