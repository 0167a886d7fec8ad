"""The two tiers never contradict each other, on many elements."""

from __future__ import annotations

import numpy as np
import pytest

from oracles.formula.contract import Contract
from oracles.ops import OPS
from oracles.summation import Lanes
from oracles.tests.common.adversary import RECIPES
from oracles.tests.common.judged import TOYS, known
from oracles.tests.common.problems import CONTRACTS, backward, contract_of, forward
from oracles.tests.common.rows import any_contract, differences, joined_rows
from oracles.tests.common.tiers import (
    BACKWARD,
    FORWARD,
    disagreements,
    formula_tiers_agree,
    tiers_agree,
    tiers_agree_on_weights_that_are_not_finite,
)


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
def test_tiers_agree_on_many_elements(dtype: str) -> None:
    """Every op under every contract; at least 200,000 elements for each dtype."""
    rng = np.random.default_rng(3)
    compared = 0
    for recipe in RECIPES:
        for op in ("rms_norm", "fused_add_rms_norm"):
            for generate, name in ((forward, op), (backward, f"{op}_backward")):
                for number, problem in enumerate(generate(name, f"{recipe}", dtype, 22, 16)):
                    # Shifted against the short tests, so that contracts meet other problems.
                    contract = contract_of(name, list(CONTRACTS)[(number + 4) % len(CONTRACTS)])
                    count, _, wrong = disagreements(problem, contract, rng)
                    compared += count
                    assert not wrong, wrong[0]
    assert compared >= 200_000


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(("op", "dtype"), [*FORWARD, *BACKWARD])
def test_tiers_agree_under_every_contract(op: str, recipe: str, dtype: str) -> None:
    tiers_agree(op, recipe, dtype, 11)


@pytest.mark.parametrize("name", CONTRACTS)
@pytest.mark.parametrize("recipe", ["normal", "few zeros", "one inf", "sum at overflow", "subnormal"])
def test_tiers_agree_where_the_weight_is_not_finite(recipe: str, name: str) -> None:
    tiers_agree_on_weights_that_are_not_finite(recipe, name, 6)


FORMULA_CONTRACTS = (
    Contract("f32"), Contract("f32", sums={"n": Lanes(4, 2, "scalar")}, mean="reciprocal"), Contract("input"),
    Contract("f32", denormals="flush", fused=False), Contract("f64"),
    Contract("f32", nonfinite="unspecified", saturate=True, zeros="any"),
    Contract("f32", dtypes={"rstd": "bf16", "e": "f16", "shifted": "f16"}), Contract("bf16", denormals="flush results"),
)  # fmt: skip


@pytest.mark.parametrize("seed", range(10))
def test_tiers_of_formulas_agree_on_many_elements(seed: int) -> None:
    with known(*TOYS):
        compared, unsure = formula_tiers_agree(TOYS, FORMULA_CONTRACTS, 9, seed)
    assert compared > 100_000
    assert unsure < compared / 20


@pytest.mark.parametrize("op", [name for name, op in OPS.items() if op.any_axis and not op.least])
def test_a_row_of_many_problems_is_the_same_by_itself_and_among_others(op: str) -> None:
    rng = np.random.default_rng(7)
    for number in range(100):
        problem, tensors = joined_rows(OPS[op], ("f64", "f32", "f16", "bf16")[number % 4], 1 + number % 13, rng)
        contract = any_contract(problem, rng)
        found = list(differences(problem, contract, number % 2 == 0, tensors))
        assert not found, f"{found[0]}, {problem.problem}, {contract}"
