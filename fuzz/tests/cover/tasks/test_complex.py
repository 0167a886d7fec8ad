"""References and kernels that take and return complex numbers are judged by their parts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fuzz
from fuzz.references.derive import derive
from fuzz.tests.common.complex_kernels import BY_NORM, ROWS, Row, gauss
from fuzz.tests.conftest import Cli
from oracles.formula.contract import Contract
from oracles.neighbours import neighbours
from oracles.tests.common.whole import quarter

pytestmark = pytest.mark.usefixtures("quick_checks")
RIGHT = [(row, at) for row, each in ROWS.items() for at in range(len(each.right))]
WRONG = [(row, at) for row, each in ROWS.items() for at in range(len(each.wrong))]


def check(
    row: str, kernel: Callable[..., Any], seed: int = 1, cases: int = 12, table: Mapping[str, Row] = ROWS, **given: Any
) -> None:
    each = table[row]
    dtypes = {name: "complex64" for name in ("z", "w") if f"{name}=" in each.shapes}
    given = {"dtypes": dtypes, "max_cases": cases, "seed": seed, **each.given, **given}
    fuzz.check(kernel, reference=each.reference, shapes=each.shapes, **given)


@pytest.mark.some(2)
@pytest.mark.parametrize(("row", "at"), RIGHT)
def test_a_right_kernel_passes(row: str, at: int) -> None:
    check(row, ROWS[row].right[at], cases=quarter(32))


@pytest.mark.some(2)
@pytest.mark.parametrize(("row", "at"), WRONG)
def test_a_wrong_kernel_is_found(row: str, at: int) -> None:
    with pytest.raises(fuzz.CheckFailed):
        check(row, ROWS[row].wrong[at], cases=40)


def test_a_report_names_the_parts() -> None:
    with pytest.raises(fuzz.CheckFailed) as failed:
        check("product", lambda z, w: z * w.conj())
    words = " ".join(str(failed.value).split())
    assert "z_real" in words
    assert "a complex z is its parts z_real and z_imag" in words


NORM = [(row, at) for row, each in BY_NORM.items() for at in range(len(each.right))]
PARTS = {f"y_{part}": "formula" for part in ("real", "imag")}


@pytest.mark.some(2)
@pytest.mark.parametrize(("row", "at"), NORM)
def test_what_is_right_by_its_norm_passes(row: str, at: int) -> None:
    check(row, BY_NORM[row].right[at], cases=quarter(64), table=BY_NORM)


@pytest.mark.some(2)
@pytest.mark.parametrize(("row", "at"), [(row, at) for row, each in BY_NORM.items() for at in range(len(each.wrong))])
def test_what_is_wrong_by_its_norm_is_found(row: str, at: int) -> None:
    with pytest.raises(fuzz.CheckFailed):
        check(row, BY_NORM[row].wrong[at], cases=40, table=BY_NORM)


def test_each_part_is_right_by_itself_where_that_is_declared(capsys: pytest.CaptureFixture[str]) -> None:
    check("product", lambda z, w: z * w, contract={"algorithm": PARTS})
    check("product", lambda z, w: z * w)
    assert "by norm" not in capsys.readouterr().err
    check("product", gauss, cases=16)
    assert "right by norm only" in capsys.readouterr().err
    with pytest.raises(fuzz.CheckFailed):
        check("product", gauss, cases=60, contract={"algorithm": PARTS})


def test_a_part_is_not_judged_if_the_whole_number_overflows() -> None:
    """By the angle both are then infinite, and a right fourth power failed in two of five seeds."""
    for size, is_nan in ((4.0e9, False), (4.5e9, True)):
        bound = fuzz.bound(lambda z: z**4, inputs=(torch.tensor([[complex(size, 1.0)]]),), output="y_imag")
        assert bound.nan.item() is is_nan


def test_no_explanation_names_the_room_for_the_norm() -> None:
    """It is no step of the formula, but was said to be right in f64 only."""
    op = derive(ROWS["product"].reference, ROWS["product"].shapes, dtypes={"z": "complex64", "w": "complex64"}).op
    named = {name for each in neighbours(op, Contract()) for name in each.contract.dtypes}
    assert {"y_real", "part"} <= named
    assert not {"norm", "norm2"} & named


def test_a_part_may_be_off_by_some_units_of_the_whole_number() -> None:
    z, w = (torch.complex(*torch.randn(2, 4, 64, generator=torch.Generator().manual_seed(at))) for at in (1, 2))
    usual: dict[str, Any] = {"inputs": (z, w), "output": "y_real"}
    whole = z.abs().double() * w.abs().double() * 2.0**-24
    for contract, least, most in ((None, 23.0, 60.0), ({"algorithm": PARTS}, 0.0, 2.0)):
        bound = fuzz.bound(ROWS["product"].reference, contract=contract, **usual)
        units = (bound.high.double() - bound.low.double()) / 2 / whole
        assert least <= units.min()
        assert units.max() <= most


def test_examples_say_that_a_tensor_is_complex() -> None:
    z = torch.complex(torch.randn(3, 8), torch.randn(3, 8))
    given: dict[str, Any] = {"reference": lambda z: z * z, "example_inputs": (z,), "max_cases": quarter(24), "seed": 1}
    fuzz.check(lambda z: torch.square(z), **given)
    with pytest.raises(fuzz.CheckFailed):
        fuzz.check(lambda z: z * z.conj(), **given)


def test_other_names_stand_for_the_same_places() -> None:
    check("product", lambda a, b: a * b)


def test_wider_numbers_are_judged_where_they_are_declared() -> None:
    wide = fuzz.Capabilities(dtypes=("f64",), strides="any")
    check("product", lambda z, w: z * w, capabilities=wide)
    with pytest.raises(fuzz.CheckFailed):
        check("product", lambda z, w: (z.to(torch.complex64) * w.to(torch.complex64)).to(z.dtype), capabilities=wide)


def rotated(x, turn):  # type: ignore[no-untyped-def]
    """Rotary embeddings as most models have them: rows in bf16, and angles as complex64."""
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turn).flatten(-2).type_as(x)


def by_hand(x: Any, turn: Any) -> Any:
    a, b = x[..., 0::2].float(), x[..., 1::2].float()
    return torch.stack([a * turn.real - b * turn.imag, a * turn.imag + b * turn.real], -1).flatten(-2).to(x.dtype)


def with_short_angles(x: Any, turn: Any) -> Any:
    return by_hand(x, torch.complex(turn.real.bfloat16().float(), turn.imag.bfloat16().float()))


def test_complex_numbers_beside_tensors_of_16_bits_are_complex64() -> None:
    given: dict[str, Any] = {"reference": rotated, "shapes": "x=b s 2d, turn=s d", "dtypes": {"turn": "complex64"}}
    for dtypes in ("bf16",), ("f32", "bf16"), ("f64", "f16"), ("f64", "bf16"):
        fuzz.check(by_hand, capabilities=fuzz.Capabilities(dtypes=dtypes), max_cases=16, seed=1, **given)
    with pytest.raises(fuzz.CheckFailed, match="y"):
        fuzz.check(with_short_angles, capabilities=fuzz.Capabilities(dtypes=("bf16",)), max_cases=24, seed=1, **given)


def test_complex_numbers_of_16_bits_are_refused_and_not_tried() -> None:
    with pytest.raises(fuzz.CheckError, match="bf16: complex numbers have parts of f32 or f64"):
        check("product", lambda z, w: z * w, capabilities=fuzz.Capabilities(dtypes=("f32", "bf16")))
    seen = set[torch.dtype]()

    def watched(z: Any, w: Any) -> Any:
        seen.add(z.dtype)
        return z * w

    check("product", watched)
    assert seen == {torch.complex64, torch.complex128}


def filtered(x, w):  # type: ignore[no-untyped-def]
    return torch.fft.irfft(torch.fft.rfft(x) * w, n=x.shape[-1])


def test_what_only_fills_up_an_extent_is_no_element() -> None:
    def mine(x: Any, w: Any) -> Any:
        return np.fft.irfft(np.fft.rfft(x) * w, n=x.shape[-1])

    given: dict[str, Any] = {"fixed": {"n": 14, "m": 8}, "dtypes": {"w": "complex64"}}
    fuzz.check(mine, reference=filtered, shapes="x=b n, w=m", max_cases=24, seed=3, **given)  # ended with an error


def test_one_output_and_its_bound_are_judged_by_parts() -> None:
    z, w = (torch.complex(torch.randn(3, 8), torch.randn(3, 8)) for _ in range(2))
    fuzz.assert_right(z * w, ROWS["product"].reference, (z, w))
    fuzz.assert_right(torch.abs(z), lambda z: z.abs(), {"z": z})
    with pytest.raises(AssertionError, match="y_imag"):
        fuzz.assert_right((z * w).conj(), ROWS["product"].reference, (z, w))
    bound = fuzz.bound(ROWS["product"].reference, (z, w), output="y_real")
    assert bound.allows((z * w).real).all()


GRADIENTS: Sequence[tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = [
    (lambda z: (z * z.conj()).real, lambda z, dy: 2 * dy * z, lambda z, dy: 2 * dy * z.conj()),
    (lambda z: z.exp(), lambda z, dy: dy * z.exp().conj(), lambda z, dy: dy * z.exp()),
    (lambda z: z.abs(), lambda z, dy: dy * z / z.abs().clamp(min=1e-30), lambda z, dy: dy * z.conj()),
]


@pytest.mark.some(1)
@pytest.mark.parametrize("row", range(len(GRADIENTS)))
def test_gradients_of_complex_numbers_are_conjugated_as_those_of_torch(row: int) -> None:
    forward, right, wrong = GRADIENTS[row]
    given: dict[str, Any] = {"reference": fuzz.backward(forward), "shapes": "z=b n", "dtypes": {"z": "complex64"}}
    fuzz.check(right, max_cases=quarter(24), seed=1, **given)
    with pytest.raises(fuzz.CheckFailed, match="dz_"):
        fuzz.check(wrong, max_cases=24, seed=1, **given)


def test_what_is_complex_in_a_gradient_follows_from_the_forward_function() -> None:
    def found(forward: Callable[..., Any], **given: Any) -> tuple[list[str], list[str]]:
        op = derive(fuzz.backward(forward), **given).op
        return [each.name for each in op.inputs], [each.name for each in op.outputs]

    complexes = {"z": "complex64"}
    assert found(lambda z: z.abs(), shapes="z=n", dtypes=complexes)[0] == ["z_real", "z_imag", "dy"]
    assert found(lambda z, a: z * a, shapes="z=b n, a=n, dy=b n", dtypes=complexes) == (
        ["z_real", "z_imag", "dy_real", "dy_imag", "a"], ["dz_real", "dz_imag", "da"],
    )  # fmt: skip
    assert found(lambda x: torch.fft.fft(x), shapes="x=b n") == (["x", "dy_real", "dy_imag"], ["dx"])


_REFERENCE = """
import torch


class Model(torch.nn.Module):
    def forward(self, z, w):
        return {result}


def get_inputs():
    return [torch.randn(3, 5) * (1 + 2j), torch.randn(3, 5) * (1 - 1j)]


def get_init_inputs():
    return []
"""
_SOLUTION = """
import torch


class ModelNew(torch.nn.Module):
    def forward(self, z, w):
        a, b, c, d = z.real, z.imag, w.real, w.imag
        return torch.complex(a * c {sign} b * d, a * d + b * c)
"""


def test_judge_takes_complex_numbers_and_tells_their_parts(cli_here: Cli, tmp_path: Path) -> None:
    (tmp_path / "ref.py").write_text(_REFERENCE.format(result="z * w"))
    (tmp_path / "wrong.py").write_text(_SOLUTION.format(sign="+"))
    (tmp_path / "numpy_one.py").write_text("import numpy as np\n\n\ndef kernel(z, w):\n    return np.multiply(z, w)\n")
    found = cli_here(
        "judge", "wrong.py", "numpy_one.py", "--against", "ref.py", "--trusted", "--max-cases", "8",
        "--no-shrink", "--seed", "1", "--json",
    )  # fmt: skip
    ruled = {Path(each["solution"]).stem: each["verdict"] for each in json.loads(found.stdout)["solutions"]}
    assert ruled == {"wrong": "wrong", "numpy_one": "right"}
    assert "z_real" in found.stdout


def test_judge_refuses_a_replay_of_complex_numbers_in_one_line(cli_here: Cli, tmp_path: Path) -> None:
    (tmp_path / "ref.py").write_text(_REFERENCE.format(result="torch.tanh(z) * w"))
    (tmp_path / "right.py").write_text(_SOLUTION.format(sign="-"))
    found = cli_here("judge", "right.py", "--against", "ref.py", "--trusted")
    assert found.returncode == 4
    assert "complex numbers has no formula" in found.stderr


def test_a_module_of_complex_numbers_is_checked() -> None:
    class Model(torch.nn.Module):  # type: ignore[misc]
        def forward(self, z: Any) -> Any:
            return z * z

    class Conjugates(torch.nn.Module):  # type: ignore[misc]
        def forward(self, z: Any) -> Any:
            return z * z.conj()

    given: dict[str, Any] = {"get_inputs": lambda: [torch.randn(3, 5) * (1 + 2j)], "max_cases": 12, "seed": 1}
    fuzz.check_module(Model, Model, **given)
    with pytest.raises(fuzz.CheckFailed):
        fuzz.check_module(Conjugates, Model, **given)


def test_a_kernel_that_writes_its_input_is_found() -> None:
    def scaled(z: Any, w: Any) -> Any:
        return z.mul_(w)

    with pytest.raises(fuzz.CheckFailed, match="z_"):
        check("product", scaled)


def test_a_kernel_may_write_a_complex_output() -> None:
    def written(z: Any, w: Any, y: Any) -> None:
        torch.mul(z, w, out=y)

    check("product", written)


def test_a_kernel_that_returns_real_numbers_is_told_so() -> None:
    with pytest.raises(fuzz.CheckFailed, match="returns real numbers for y, which is complex"):
        check("product", lambda z, w: (z * w).real)


def test_a_kernel_that_returns_too_few_is_told_the_names_of_complex_tensors() -> None:
    given: dict[str, Any] = {"reference": lambda z: {"p": z * z, "q": z * 2}, "shapes": "z=b n", "max_cases": 6}
    for returned, said in ((lambda z: z, "one tensor"), (lambda z: (z, z, z), "a tuple of 3")):
        with pytest.raises(fuzz.CheckError, match=rf"it returned {said}: return \(p, q\), or"):
            fuzz.check(returned, dtypes={"z": "complex64"}, **given)


def test_a_kernel_that_is_its_reference_is_right_at_odd_places_of_storage() -> None:
    def turned(x: Any) -> Any:
        return torch.view_as_real(torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * 1j).flatten(-2)

    fuzz.check(turned, reference=turned, shapes="x=b 2n", max_cases=32, seed=1)


def test_strides_of_complex_tensors_are_drawn() -> None:
    seen = set[bool]()

    def watched(z: Any, w: Any) -> Any:
        seen.add(z.is_contiguous())
        return z * w

    check("product", watched, capabilities=fuzz.Capabilities(strides="any"), cases=60)
    assert seen == {False, True}


def test_infinities_and_overflow_are_judged_where_they_are_asked_for() -> None:
    values = "any"
    check("magnitude", lambda z: torch.abs(z), values=values)
    with pytest.raises(fuzz.CheckFailed):  # overflows on the way
        check("magnitude", lambda z: torch.sqrt(z.real**2 + z.imag**2), values=values, cases=40)


def test_a_function_without_a_formula_is_replayed() -> None:
    given: dict[str, Any] = {"shapes": "z=b n", "dtypes": {"z": "complex64"}, "oracle": "replay", "max_cases": 12}
    fuzz.check(lambda z: np.tanh(z), reference=lambda z: torch.tanh(z), **given)
    with pytest.raises(fuzz.CheckFailed):
        fuzz.check(lambda z: torch.tanh(z.conj()), reference=lambda z: torch.tanh(z), **given)


def test_parts_that_cancel_in_a_row_of_equal_numbers_do_not_make_it_another_reference() -> None:
    with pytest.raises(fuzz.CheckFailed):
        check("inverse transform", ROWS["inverse transform"].wrong[0], cases=40)
