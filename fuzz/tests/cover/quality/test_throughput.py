"""What throughput is compared with really tests, and what is told of it adds up."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from fuzz.adapters.pack import built_in, load
from fuzz.adapters.registry import expand
from fuzz.adapters.target import Target
from fuzz.generate.turn import BATCH
from fuzz.quality.__main__ import app
from fuzz.quality.pace import STAGES, Cost, Scaling, plain, scaling, stages
from fuzz.quality.pace.plot import draw
from fuzz.quality.throughput import counts
from fuzz.tests.common.hunting import PACK
from fuzz.tests.conftest import Cli
from oracles.ops import OPS

SHORT = 64


def _target(name: str) -> Target:
    return next(target for target in expand(PACK.kernels) if target.id == name)


def _planted(name: str) -> Target:
    mutant = next(mutant for mutant in PACK.mutants if mutant.name == name)
    return next(t for t in expand([mutant.apply(PACK.kernel(mutant.base))]) if t.id.endswith("@native:gcc-O2"))


@pytest.mark.some(1)
@pytest.mark.parametrize("name", ["c-generic@native:gcc-O2", "c-sve@qemu:vl=256,gcc-O2"])
def test_the_plain_way_passes_a_correct_kernel(name: str) -> None:
    found = plain.measure(_target(name), SHORT, 0.5, 1)
    assert found.runs > 0
    assert found.failures == 0
    assert found.seconds >= 0.5
    assert found.cpu > 0


def test_the_plain_way_judges_each_element_and_fails_a_planted_bug() -> None:
    x = np.random.default_rng(1).standard_normal((3, 50), np.float32)
    with plain.built(_target("c-generic@native:gcc-O2")) as program:
        y = program.run(x, plain.EPS).copy()
    assert plain.judged(x, y, plain.EPS)
    y[2, 49] *= np.float32(1.001)
    assert not plain.judged(x, y, plain.EPS)
    with plain.built(_planted("generic-divides-by-n-plus-1")) as program:
        assert not plain.judged(x, program.run(x, plain.EPS), plain.EPS)


def test_the_shares_of_the_stages_add_up() -> None:
    targets = [_target("c-generic@native:gcc-O2"), _target("c-sve@qemu:vl=256,gcc-O2")]
    cost = stages.of_search(targets, 0.5, 1, "both")
    assert cost.runs > 0
    assert sum(cost.share(stage) for stage in STAGES) == pytest.approx(1)
    assert sum(cost.each(stage) for stage in STAGES) == pytest.approx(1 / cost.rate)
    assert min(cost.drawing, cost.transport, cost.judging) > 0
    twice = stages.joined([cost, cost], "twice")
    assert twice == Cost("twice", 2 * cost.runs, *(2 * getattr(cost, stage) for stage in STAGES))


def test_each_size_is_measured_on_every_target_that_takes_it() -> None:
    targets = [_target("c-generic@native:gcc-O2"), _target("c-dispatch@native:gcc-O2")]
    costs = dict(stages.of_sizes(targets, [(3, 70), (1, 7)], 0.1))
    assert list(costs) == [(3, 70), (1, 7)]
    assert all(cost.runs % (len(targets) * BATCH) == 0 for cost in costs.values())


def test_a_size_that_no_target_takes_is_left_out() -> None:
    (target, *_) = expand([scaling.bounded(PACK.kernel("generic"), 64)])
    assert list(dict(stages.of_sizes([target], [(2, 65), (2, 64)], 0.05))) == [(2, 64)]


def test_a_bounded_kernel_takes_no_longer_rows_than_before_and_rejects_none() -> None:
    kernel = PACK.kernel("generic")
    assert scaling.bounded(kernel, 600).able.max == {"n": 600}
    assert scaling.bounded(scaling.bounded(kernel, 70), 600).able.max == {"n": 70}
    with scaling.bounded_pack(built_in(), 600) as folder:
        kernels = load(folder).kernels
    assert {each.able.outside for each in kernels} == {"undefined"}
    ables = [each.able for each in kernels if OPS[each.op].row == "n"]
    assert all(able.max["n"] == max(600, able.multiple_of.get("n", 1)) for able in ables)


def test_processes_are_doubled_up_to_the_most() -> None:
    assert [counts(most) for most in (1, 2, 6, 16)] == [[1], [1, 2], [1, 2, 4, 6], [1, 2, 4, 8, 16]]


def test_the_plot_shows_every_target_where_it_can_be_drawn(tmp_path: Path) -> None:
    cost = Cost("c-mine@native", 10, 0.1, 0.2, 0.3, 0.4)
    asked = ([cost], [Scaling(1, 10, 1.0), Scaling(2, 18, 1.0)], {(4, 64): cost}, tmp_path / "pace.svg")
    if find_spec("matplotlib") is None:
        with pytest.raises(ModuleNotFoundError):
            draw(*asked)
        return
    draw(*asked)
    assert "c-mine@native" in (tmp_path / "pace.svg").read_text()


def test_what_cannot_be_measured_is_said(cli_here: Cli) -> None:
    done = cli_here("throughput", "--target", "c-neon@native", app=app)
    assert done.returncode == 4
