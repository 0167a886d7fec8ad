"""The two tiers never contradict each other, on many elements."""

from __future__ import annotations

import numpy as np
import pytest

from oracles.tests.common.adversary import RECIPES
from oracles.tests.common.problems import CONTRACTS, backward, forward
from oracles.tests.common.tiers import disagreements


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
                    numerics = list(CONTRACTS.values())[(number + 4) % len(CONTRACTS)]
                    count, _, wrong = disagreements(problem, numerics, rng)
                    compared += count
                    assert not wrong, wrong[0]
    assert compared >= 200_000
