"""The dtype of an output if the inputs have 16 bits: that of the inputs, or f32 where the reference returns f32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fuzz

pytestmark = pytest.mark.usefixtures("quick_checks")


def energy(x, w):  # type: ignore[no-untyped-def]
    """The sums of squares in f32, as losses often are, and the weighted rows in the dtype of x."""
    return x.float().square().sum(-1), (x.float() * w.float()).to(x.dtype)


def alike(x: Any, w: Any) -> Any:
    return (x.float() * x.float()).sum(-1), (x.float() * w.float()).to(x.dtype)


def short(x: Any, w: Any) -> Any:
    found, rows = alike(x, w)
    return found.to(x.dtype), rows


def long(x: Any, w: Any) -> Any:
    return alike(x, w)[0], x.float() * w.float()


def wrong(x: Any, w: Any) -> Any:
    found, rows = alike(x, w)
    return found * 1.01, rows


def check(kernel: Callable[..., Any]) -> None:
    able = fuzz.Capabilities(dtypes=("f32", "bf16"), empty=False)
    fuzz.check(kernel, reference=energy, shapes="x=b n, w=n", capabilities=able, max_cases=12, seed=1)


@pytest.mark.parametrize("kernel", [alike, short])
def test_an_output_that_is_f32_in_the_reference_may_be_f32(kernel: Callable[..., Any]) -> None:
    check(kernel)


@pytest.mark.parametrize(("kernel", "said"), [(long, "the dtype of y1 is float32, must be bfloat16"), (wrong, "y0")])
def test_other_outputs_and_wrong_values_still_fail(kernel: Callable[..., Any], said: str) -> None:
    with pytest.raises(fuzz.CheckFailed, match=said):
        check(kernel)


def cast_back(x: Any, w: Any) -> Any:
    found, rows = short(x, w)
    return found.float(), rows


def squared_in_bf16(x: Any, w: Any) -> Any:
    return x.square().float().sum(-1), alike(x, w)[1]


@pytest.mark.parametrize(
    ("kernel", "mixed"), [(cast_back, ()), (cast_back, (("y0", ("f32",)),)), (squared_in_bf16, ())]
)
def test_an_output_in_f32_is_judged_as_f32(kernel: Callable[..., Any], mixed: Any) -> None:
    able = fuzz.Capabilities(dtypes=("bf16",), mixed=mixed)
    given: dict[str, Any] = {"reference": energy, "shapes": "x=b n, w=n", "capabilities": able, "max_cases": 12}
    fuzz.check(alike, seed=1, **given)
    with pytest.raises(fuzz.CheckFailed, match=r"y0\[.*must be \S+ \(or"):
        fuzz.check(kernel, seed=1, **given)


def coarse(x):  # type: ignore[no-untyped-def]
    return (x.float().sum(-1).to(x.dtype) * 2).float()


def test_an_output_in_f32_is_rounded_where_the_reference_is_coarse_itself() -> None:
    able = fuzz.Capabilities(dtypes=("bf16",))
    for kernel in coarse, lambda x: x.float().sum(-1) * 2:
        fuzz.check(kernel, reference=coarse, shapes="x=b n", capabilities=able, max_cases=12, seed=1)


def total(x):  # type: ignore[no-untyped-def]
    return x.sum(-1)


def refuses_none(x: Any) -> Any:
    if not x.numel():
        raise RuntimeError("no elements")
    return x.sum(-1)


def test_tensors_without_elements_are_judged_by_a_reference_only_if_that_is_said() -> None:
    able = fuzz.Capabilities(dtypes=("f32", "f64"))
    fuzz.check(refuses_none, reference=total, shapes="x=b n", capabilities=able, max_cases=24, seed=1)
    able = fuzz.Capabilities(dtypes=("f32", "f64"), empty=True)
    with pytest.raises(fuzz.CheckFailed, match="no elements"):
        fuzz.check(refuses_none, reference=total, shapes="x=b n", capabilities=able, max_cases=24, seed=1)


def shortened(x: Any) -> Any:
    h = x.float()
    return h / (h * h).mean(-1, keepdim=True).add(1e-6).sqrt()


@pytest.mark.parametrize("off", [0.0, 1e-5])
def test_a_reference_that_casts_f64_to_f32_is_right_as_a_kernel(off: float) -> None:
    """It was called wrong for the dtype of its output."""
    given: dict[str, Any] = {"reference": shortened, "shapes": "x=b n", "max_cases": 12, "seed": 1}
    able = fuzz.Capabilities(dtypes=("f32", "f64"))
    if not off:
        fuzz.check(lambda x: shortened(x), capabilities=able, **given)
        return
    with pytest.raises(fuzz.CheckFailed, match=r"y\[.*must be"):
        fuzz.check(lambda x: shortened(x) * (1 + off), capabilities=able, **given)
    with pytest.raises(fuzz.CheckFailed, match="the dtype of y is float32, must be float64"):
        fuzz.check(
            lambda x: (x * 2).float(), reference=lambda x: x * 2, shapes="x=b n", capabilities=able, max_cases=12
        )
