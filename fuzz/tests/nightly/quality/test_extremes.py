"""Correct kernels of every op pass at the ends of dtypes, under every contract of a covering array."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.core.adapters.pack import load
from fuzz.quality.calibrate.contracts import SimulatedPack, accused, contracts, problems
from fuzz.quality.calibrate.measure import Work, measured
from fuzz.tests.common.other_ops import write_other_ops
from fuzz.tests.common.own_dims import write_dims_pack
from fuzz.tests.common.own_pack import unknown_afterwards
from oracles.ops import OPS


@pytest.mark.parametrize("write", [None, write_other_ops, write_dims_pack])
def test_correct_kernels_of_every_op_pass(write: object, tmp_path: Path) -> None:
    with unknown_afterwards():
        pack = None
        if callable(write):
            (tmp_path / "ops").mkdir()
            write(tmp_path / "ops")
            pack = tmp_path / "ops"
        ops = OPS.values() if pack is None else load(pack).ops
        for op in ops:
            for number, contract in enumerate(contracts(op)):
                made = SimulatedPack(op, contract, number)
                for seed, problem in enumerate(problems(op, made.main, 4, number)):
                    assert [*accused(problem, contract, seed)] == [], op.name
            for number in (0, 7):
                made = SimulatedPack(op, contracts(op)[number], number)
                found = measured(Work(op.name, number, tmp_path / f"{op.name}-{number}", 1, 1, pack), made)
                assert (found.alarms, found.found) == ([], 0)
                assert found.extremes
