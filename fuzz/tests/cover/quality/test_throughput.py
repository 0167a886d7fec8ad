"""What is measured of throughput adds up."""

from __future__ import annotations

from fuzz.core.adapters.registry import expand
from fuzz.quality.__main__ import app
from fuzz.quality.throughput import STAGES, Cost, measured
from fuzz.tests.common.hunting import PACK
from fuzz.tests.conftest import Cli


def test_each_stage_takes_some_of_the_time() -> None:
    target = next(target for target in expand(PACK.kernels) if target.id == "c-generic@native:gcc-O2")
    cost = measured([target], 0.3, 1)
    assert cost.op == "rms_norm"
    assert cost.runs > 0
    assert min(cost.drawing, cost.transport, cost.judging) > 0
    assert sum(getattr(cost, stage) for stage in STAGES) >= 0.3


def test_a_row_has_runs_a_second_and_microseconds_a_run() -> None:
    assert Cost("softmax", 100, 0.1, 0.2, 0.3, 0.4).cells == ("softmax", "100", "1,000", "2,000", "3,000", "4,000")


def test_what_cannot_be_measured_is_said(cli_here: Cli) -> None:
    done = cli_here("throughput", "--target", "c-neon@native", app=app)
    assert done.returncode == 4
