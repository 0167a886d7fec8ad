"""A kernel is held against a function in JAX, and against its gradient."""

from __future__ import annotations

from typing import Any

import pytest

import fuzz
from fuzz.tests.common.examples import first_cases
from fuzz.uses.check.reference import read
from oracles.reference.derive import derive

jax = pytest.importorskip("jax")
torch = pytest.importorskip("torch")
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
    with pytest.raises(fuzz.CheckFailed, match="FAIL  to_8_bits  wrong values"):
        fuzz.check(to_8_bits, **more)
    said = capfd.readouterr().err
    assert said.startswith("reference l2_normalised: x[b, n] -> y[b, n], 5 operations, same value")
    assert "os.fork" not in said


def halves(x: Any) -> Any:
    return jnp.exp(x).reshape(x.shape[0], 2, -1).sum(1)


def test_shapes_that_it_raises_for_are_not_drawn_and_no_replay_is_offered() -> None:
    found = read(halves, "x=b n", None, None, None)
    taken = {case.inputs["x"].layout.shape[-1] % 2 for case in first_cases(found.op, 1, count=40) if found.takes(case)}
    assert taken == {0}
    with pytest.raises(fuzz.CheckError, match=r"lax.while .* turns as often as a value says[^;]*$"):
        fuzz.check(lambda x: x, reference=lambda x: jax.lax.while_loop(jnp.any, jnp.negative, x), shapes="x=b n")
    with pytest.raises(fuzz.CheckError, match="oracle='replay' is for references in torch or NumPy"):
        fuzz.check(lambda x: x, reference=halves, shapes="x=b n", oracle="replay")


def test_a_gradient_is_what_jax_makes_of_it() -> None:
    found = derive(fuzz.backward(l2_normalised), "x=b n")
    assert [each.name for each in found.op.outputs] == ["dx"]
    assert found.op.name == "l2_normalised_backward"
    assert [each.name for each in found.op.inputs] == ["x", "dy"]
