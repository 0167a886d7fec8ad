"""Every elementary function as formulas have it, at many arguments in every dtype under every contract."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from oracles.simulated.simulation import simulate
from oracles.tests.common.elementary import FUNCTIONS
from oracles.tests.common.functions import CONTRACTS, OPS, problems
from oracles.tests.common.judged import known, results


@pytest.fixture(autouse=True)
def _ops(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("oracles.truth.SAMPLE", 1 - 6)  # the precise tier confirms each pass
    with known(*OPS.values()):
        yield


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16", "f64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_correct_kernel_is_accused(name: str, dtype: str, seed: int) -> None:
    for contract in CONTRACTS if dtype != "f64" else [each for each in CONTRACTS if each.compute != "f32"]:
        for place, of in enumerate(problems(name, dtype, 10, seed)):
            got = simulate(of, contract, np.random.default_rng(10 * seed + place))
            assert results(of, contract, got) == ["pass"] * 3, (contract, place)
