"""A kernel is held against a function in JAX, and against its gradient."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
import torch

import fuzz
from fuzz.references.derive import derive
from fuzz.tasks.check.function import of_jax, of_numpy
from fuzz.tasks.check.reference import read
from fuzz.tasks.check.request import GivenData
from fuzz.tests.common.examples import first_cases
from fuzz.tests.common.told import fails

jnp = jax.numpy

pytestmark = pytest.mark.usefixtures("quick_checks")


def l2_normalised(x: Any) -> Any:
    return x / jnp.maximum(jnp.linalg.norm(x, axis=-1, keepdims=True), 1e-12)


def test_what_computes_the_same_passes_and_what_does_not_fails(capfd: pytest.CaptureFixture[str]) -> None:
    def mine(x: Any) -> Any:
        return x * torch.rsqrt(x.square().sum(-1, keepdim=True).clamp(min=1e-24))

    def to_8_bits(x: Any) -> Any:
        return mine(x.bfloat16().float())

    more: Any = {"reference": l2_normalised, "shapes": "x=b n", "max_cases": 10, "seed": 1}
    fuzz.check(mine, **more)
    with fails("to_8_bits"):
        fuzz.check(to_8_bits, **more)
    said = capfd.readouterr().err
    assert "reference l2_normalised: x[b, n] -> y[b, n], 5 operations, same value" in said
    assert "os.fork" not in said


def halves(x: Any) -> Any:
    return jnp.exp(x).reshape(x.shape[0], 2, -1).sum(1)


def test_shapes_that_it_raises_for_are_not_drawn() -> None:
    found = read(halves, GivenData("x=b n"))
    taken = {case.inputs["x"].layout.shape[-1] % 2 for case in first_cases(found.op, 1, count=40) if found.takes(case)}
    assert taken == {0}


@pytest.mark.whole
def test_a_gradient_is_what_jax_makes_of_it() -> None:
    found = derive(fuzz.backward(l2_normalised), "x=b n")
    assert [each.name for each in found.op.outputs] == ["dx"]
    assert found.op.name == "l2_normalised_backward"
    assert [each.name for each in found.op.inputs] == ["x", "dy"]


@pytest.mark.whole
def test_a_kernel_may_take_and_return_arrays_of_jax() -> None:
    """A compiled one, too."""

    def mine(x: Any) -> Any:
        return x * jax.lax.rsqrt(jnp.maximum((x * x).sum(-1, keepdims=True), 1e-24))

    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    several = of_numpy(lambda x: ({"y": mine(x)}, x), of_jax())(x)
    for found in (of_numpy(jax.jit(mine), of_jax())(x=x), several[0]["y"], several[1]):
        assert type(found) is np.ndarray
    contract = read(l2_normalised, GivenData("x=b n")).contract  # else dozens of shapes are compiled
    more: Any = {"reference": l2_normalised, "shapes": "x=b n", "arrays": "jax", "contract": contract, "seed": 1}
    fuzz.check(jax.jit(mine), max_cases=2, **more)


def in_jax(x: Any) -> Any:
    size = jnp.linalg.norm(x)
    return jax.lax.while_loop(lambda y: jnp.max(jnp.abs(y)) > 2.0 * size, lambda y: y / 2.0, x) / 3.0


@pytest.mark.whole
def test_a_reference_in_jax_is_replayed_too() -> None:
    asked: dict[str, Any] = {"reference": in_jax, "shapes": "x=b n", "arrays": "numpy", "max_cases": 1, "seed": 1}
    with pytest.raises(fuzz.CheckError, match=r'loops as often as .* oracle="replay" compares a kernel with'):
        fuzz.check(lambda x: x / 3.0, **asked)
    fuzz.check(lambda x: x / 3.0, **asked, oracle="replay")
    with fails():
        fuzz.check(lambda x: x * np.float32(0.3333), **asked, oracle="replay")
    with pytest.raises(fuzz.CheckError, match=r"a value decides .* has neither$"):  # nor could it be replayed
        fuzz.check(lambda x: x, **asked | {"reference": lambda x: x / 3.0 if jnp.max(x) > 0 else x})


def test_places_have_the_dtype_that_they_have_in_jax() -> None:
    found = derive(lambda x: (jax.lax.top_k(x, 2)[1], jnp.argmax(x, axis=-1), jnp.argsort(x, axis=-1)), "x=b n")
    assert [each.dtype for each in found.op.outputs] == ["int32"] * 3


def test_where_it_is_not_installed_no_kernel_is_accused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.tasks.check.function.find_spec", lambda name: None)
    with pytest.raises(fuzz.CheckError, match=r"^arrays='jax': JAX is not installed: pip install jax$"):
        fuzz.check(l2_normalised, op="softmax", arrays="jax", max_cases=1)


def test_arrays_that_there_are_not_are_refused() -> None:
    other: Any = "jaxx"
    with pytest.raises(
        fuzz.CheckError, match=r"^arrays='jaxx': it is one of .*torch.*, jax, or a function of an array of N"
    ):
        fuzz.check(l2_normalised, op="softmax", arrays=other, max_cases=1)
