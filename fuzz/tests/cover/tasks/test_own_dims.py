"""Ops with dimensions of any names: of a user's pack, and in a user's test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fuzz
from fuzz.tests.common.own_dims import write_dims_pack
from fuzz.tests.common.own_pack import ARGUMENTS, unknown_afterwards
from fuzz.tests.common.told import fails
from fuzz.tests.conftest import Cli
from oracles.formula.trace import Node, Outputs, total
from oracles.op import Op
from oracles.operand import Operand
from oracles.summation import AnyOrder
from oracles.tests.common.dims import GEMM, PRODUCT
from oracles.tests.common.whole import quarter

Array = NDArray[Any]


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    with unknown_afterwards():
        yield


@pytest.mark.usefixtures("unexplained")
def test_a_function_is_checked_against_an_op_of_any_dimensions() -> None:
    order = fuzz.Contract(sums={"k": AnyOrder()})

    def right(a: Array, b: Array) -> Array:
        return np.asarray(a @ b)

    def without_tail(a: Array, b: Array) -> Array:
        whole = a.shape[-1] // 4 * 4
        return np.asarray(a[..., :whole] @ b[..., :whole, :])

    fuzz.check(right, op=PRODUCT, arrays="numpy", contract=order, max_cases=quarter(40), seed=1)
    with fails("without_tail"):
        fuzz.check(without_tail, op=PRODUCT, arrays="numpy", contract=order, max_cases=quarter(40), seed=1)


def test_so_is_one_whose_output_lies_the_other_way_round() -> None:
    def gemm(a: Array, b: Array, bias: Array | None = None, *, alpha: float) -> Array:
        c = np.float32(alpha) * (a @ b)
        return np.ascontiguousarray((c if bias is None else c + bias).T)

    order = fuzz.Contract(sums={"k": AnyOrder()})
    fuzz.check(gemm, op=GEMM, arrays="numpy", contract=order, max_cases=quarter(40), seed=1)


def test_it_is_listed_by_its_dimensions(tmp_path: Path, cli_here: Cli) -> None:
    write_dims_pack(tmp_path)
    shown = cli_here("list", "ops", "--pack", ".").stdout
    for words in ("a[..., m, k], b[..., k, n]", "c[..., m, n]", "mask[i, j]?", "c = a b."):
        assert words in shown
    header = cli_here("header", "matmul", "--pack", ".").stdout
    assert "kf_tensor b; /* [..., k, n] */" in header


@pytest.mark.whole
def test_a_broken_law_is_told_by_the_name_of_its_dimension(tmp_path: Path, cli_here: Cli) -> None:
    """Both orders of the sum are right; which one it takes hangs on the number of columns."""
    write_dims_pack(tmp_path)
    declared = 'contract=ANY, capabilities=STRIDED, laws=("batch_subset",))'
    for name, old, new in (
        ("pack.py", "contract=IN_ORDER, capabilities=STRIDED)", declared),
        (
            "loops.c",
            "int64_t p = 0; p < k; p++) sum +=",
            "int64_t q = 0, p; q < k; q++) p = n % 2 ? q : k - 1 - q, sum +=",
        ),
    ):
        text = (tmp_path / name).read_text()
        assert old in text
        (tmp_path / name).write_text(text.replace(old, new))
    only = ("--op", "matmul", "--target", "c-loops@native:gcc-O2")
    done = cli_here(
        "run", "--pack", ".", *only, "--max-cases", str(quarter(160)), "--seed", "1", "--no-shrink", "-j", "1"
    )
    assert done.returncode == 1
    assert "batch_subset (some of the slices of n alone): " in done.stdout


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ('Capabilities(axis="any")', "capabilities.axis: 'any' is for '... k', and a of matmul is '... m k'"),
        (
            "Capabilities(alignment=16)",
            "contiguous rows of k and n elements may begin anywhere; add strides='pitched'",
        ),
    ],
)
def test_what_the_dimensions_do_not_allow_is_refused(
    declared: str, message: str, tmp_path: Path, cli_here: Cli
) -> None:
    text = (write_dims_pack(tmp_path) / "pack.py").read_text()
    (tmp_path / "pack.py").write_text(text.replace('Capabilities(strides="any")', declared))
    done = cli_here("run", *ARGUMENTS, "--max-cases", "1")
    assert (done.returncode, done.stderr.count("\n")) == (4, 1), done.stderr
    assert message in done.stderr


def summed(x: Node) -> Outputs:
    """y = sum over c and s."""
    return {"y": total(x, ("c", "s"))}


@pytest.mark.whole
@pytest.mark.usefixtures("unexplained")
def test_a_loop_over_two_dimensions_is_right_for_a_sum_over_both() -> None:
    """Its chain is c s long; what leaves a term out, or takes one twice, is wrong all the same."""
    op = Op(summed, (Operand("x", "g c s"),), (Operand("y", "g"),))
    declared = fuzz.Contract(sums={"c s": AnyOrder()}, zeros="any")

    def in_a_loop(x: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(np.cumsum(x.reshape(len(x), -1), 1, dtype=np.float32)[:, -1])

    def without_last(x: Array) -> Array:
        return in_a_loop(x[..., :-1] if x.shape[2] % 4 == 3 else x)

    def first_twice(x: Array) -> Array:
        return in_a_loop(x) + (x[:, 0, 0] if x.shape[1] > 4 else np.float32(0))

    able = fuzz.Capabilities(empty=False)
    fuzz.check(in_a_loop, op=op, arrays="numpy", contract=declared, capabilities=able, max_cases=quarter(120), seed=1)
    for wrong in (without_last, first_twice):
        with fails(wrong.__name__):
            fuzz.check(
                wrong, op=op, arrays="numpy", contract=declared, capabilities=able, max_cases=quarter(120), seed=1
            )
