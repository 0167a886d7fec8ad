"""What is measured of a matrix unit: a unit as its row says is told from all others, and one that differs is seen."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from fuzz.cli.exits import Exit
from fuzz.quality.__main__ import app
from fuzz.quality.matrix_units import Multiply, attested, factors, rows_of, words
from fuzz.tests.conftest import Cli
from oracles.dtypes import point_form
from oracles.matrix_units import UNITS, MatrixUnit, unit
from oracles.rounding import round_to
from oracles.summation import Blocks
from oracles.tests.common.whole import some


def as_row(of: MatrixUnit) -> Multiply:
    return lambda a, b, dtype: of.product(a, b, dtype)


@pytest.mark.some(2)
@pytest.mark.parametrize(("name", "dtype"), [("V100", "f16"), ("A100", "tf32"), ("H200", "bf16"), ("H200", "e4m3fn")])
def test_a_unit_that_is_as_its_row_says_is_explained_by_that_row_alone(name: str, dtype: str) -> None:
    row = unit(name, dtype)
    found = attested(row, dtype, as_row(row), np.random.default_rng(1))
    assert found.equal == found.outputs
    assert found.explains == (words(row.order),) == (found.row,)
    assert found.agrees
    assert found.told > 100
    assert 0.05 < found.allowed < 1
    assert (found.as_f32 > 1) == (row.order.extra < 1)


def test_a_unit_of_other_bits_is_seen_and_named() -> None:
    row = unit("H200", "e4m3fn")
    for order in some((Blocks(32, True, 2), Blocks(16, True, -10), Blocks(32, True, -11)), 2):
        found = attested(row, "e4m3fn", as_row(replace(row, order=order)), np.random.default_rng(1))
        assert found.equal < found.outputs
        assert found.explains == (words(order),)
        assert not found.agrees


def test_a_unit_that_rounds_once_is_explained_by_no_order() -> None:
    row = unit("H200", "f16")
    exact: Multiply = lambda a, b, dtype: round_to(a @ b, point_form("f32"))  # noqa: E731
    found = attested(row, "f16", exact, np.random.default_rng(1))
    assert not found.explains


@pytest.mark.parametrize("dtype", ["f16", "bf16", "tf32", "e4m3fn", "e5m2"])
def test_all_factors_are_numbers_that_both_formats_of_a_product_have(dtype: str) -> None:
    for a, b in factors(16, dtype, np.random.default_rng(1)):
        for name in (dtype, "e4m3fn") if dtype == "e5m2" else (dtype,):
            for each in (a, b):
                np.testing.assert_array_equal(round_to(each, point_form(name)), each)
                assert np.abs(each).min() >= point_form(name).tiny


def test_rows_are_found_by_the_name_of_a_device() -> None:
    assert {dtype for _, dtype in rows_of("NVIDIA H200")} == {"f16", "bf16", "tf32", "e4m3fn", "e5m2"}
    assert rows_of("NVIDIA A100-SXM4-80GB")[0][0].order == Blocks(8, True, 1)
    assert [*rows_of("NVIDIA RTX PRO 6000 Blackwell")] == [*rows_of("NVIDIA B200")]
    assert not rows_of("NVIDIA A1000")
    assert not rows_of("AMD Instinct MI300X")


def test_the_command_lists_rows_and_says_that_there_is_no_gpu(cli_here: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    told = cli_here("matrix-units", app=app)
    assert ("no GPU" in told.stdout, told.returncode) == (True, Exit.NOTHING_RAN)
    told = cli_here("matrix-units", "--accelerator", "H700", app=app)
    assert told.returncode == Exit.USAGE
    assert "H700" in told.stderr
    listed = cli_here("matrix-units", "--rows", "--markdown", app=app).stdout
    assert listed.count("arXiv 2511.10909") >= len(UNITS)


def test_the_product_of_tf32_adds_all_terms() -> None:
    """Triton's interpreter multiplies and adds in f32: what a GPU cuts off is not seen here, a lost term is."""
    program = """
import numpy as np
from fuzz.quality.matrix_units import drawn
from fuzz.quality.tf32 import product
random = np.random.default_rng(1)
for k in (8, 48, 128):
    a, b = (drawn((32, k), -1, 0, "tf32", random) for _ in range(2))
    np.testing.assert_allclose(product(a, b.T.copy()), a @ b.T, atol=1e-5 * k)
"""
    subprocess.run([sys.executable, "-c", program], env={**os.environ, "TRITON_INTERPRET": "1"}, check=True)
