"""The contracts that calibration meets, and the kernels in C that it writes for them."""

from __future__ import annotations

from itertools import combinations

import pytest

from fuzz.quality.calibrate.contracts import contracts, fields
from fuzz.quality.emission.source import source
from fuzz.quality.emission.variant import Emission
from oracles.formula.contract import Contract
from oracles.op import Op
from oracles.ops import OPS
from oracles.summation import Any, Lanes, Pairwise
from oracles.tests.common.dims import GEMM
from oracles.tests.common.ops import LAYER_NORM


@pytest.mark.parametrize("op", [LAYER_NORM, OPS["rms_norm"]], ids=lambda op: op.name)
def test_any_two_values_of_two_fields_meet_in_a_contract(op: Op) -> None:
    every, values = contracts(op), fields(op)
    assert {"compute", "sums", "accuracy", "mean", "fused", "denormals", "nonfinite", "saturate", "zeros"} <= {*values}
    assert {"dtypes", "algorithm" if op is LAYER_NORM else "points"} <= {*values}
    for a, b in combinations(values, 2):
        met = {(str(getattr(each, a)), str(getattr(each, b))) for each in every}
        assert met == {(str(one), str(two)) for one in values[a] for two in values[b]}, (a, b)
    assert len(every) < 60


@pytest.mark.parametrize(
    ("contract", "fused", "words"),
    [
        (Contract(), False, "sum_sequential_f32(terms_f32, n_n)"),
        (Contract(), True, "fmaf(a[k], b[k], sum)"),
        (Contract(fused=False), True, "sum_sequential_f32(terms_f32, n_n)"),
        (Contract("bf16"), True, "round_bf16(load_bf16(&call->x, r * n_n + at_n) * "),
        (Contract("f64"), True, "fma(a[k], b[k], sum)"),
        (Contract(sums={"n": Lanes(8, 2, "scalar")}), False, "f32 part[16] = {0};"),
        (Contract(sums={"n": Pairwise(4)}), False, "part[k / 4]"),
        (Contract(sums={"n": Any()}), False, "for (int64_t k = n - 1; k >= 0; k--)"),
        (Contract(mean="reciprocal"), False, "sum_1s[r] * (1 / (f32)(f64)n_n)"),
        (Contract(points={"h": "bf16"}), False, "const bf16 point_"),
        (Contract(denormals="flush"), False, "__builtin_ia32_ldmxcsr(before | 0x8040);"),
        (Contract(saturate=True), False, "isinf(value) ? "),
        (Contract(dtypes={"rstd": "f64"}), False, "const f64 rstd_6 = 1 / sqrt_f64((f64)add_5)"),
    ],
)
def test_what_a_contract_says_stands_in_the_kernel(contract: Contract, fused: bool, words: str) -> None:
    assert words in source(Emission(OPS["rms_norm"], contract, fused=fused))


def test_each_tensor_lies_in_memory_as_its_own_dimensions_say() -> None:
    """The output of this product is transposed, and a dimension is measured where an input has it."""
    text = source(Emission(GEMM, Contract()))
    for words in (
        "const int64_t n_n = call->b.shape[call->b.rank - 1];",
        "dot_0s[at_m * n_n + at_n] = sum_sequential_f32(terms_f32, n_k);",
        "load_f32(&call->a, at_m * n_k + at_k) * load_f32(&call->b, at_k * n_n + at_n)",
        "store_f32(&call->c, at_n * n_m + at_m, ",
    ):
        assert words in text, words
