"""More planted bugs are found, shrunk to the smallest case that fails, and explained by what was planted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuzz.campaign.search.stopping import Interruption
from fuzz.campaign.selftest import MutantHunt, hunt
from fuzz.core.adapters.pack import built_in, load
from fuzz.core.adapters.registry import expand
from fuzz.core.execute.pool import WorkerPool
from fuzz.explain.diagnosis import TimeAllowance, diagnose
from fuzz.explain.facts import explanation_of
from fuzz.explain.finding import Finding
from fuzz.explain.shrink.shrink import sweep
from fuzz.explain.trial.trial import Family, Trials
from fuzz.report import console
from fuzz.report.words import counterfactual_lines, rule_lines, what_is_wrong

_EXPLAIN_S = 600.0
"""A limit that no mutant reaches: probes are counted, so that explanations do not depend on a clock."""

_MORE = (
    "weighted-eps-as-x", "weighted-overlap-forgotten", "backward-dw-unwritten",
    "sve-tail-dont-care", "avx2-drops-eps", "generic-writes-past-row", "generic-order-by-rows",
    "weighted-rstd-unwritten", "weighted-reads-weight-as-x", "weighted-second-pass-ignores-stride",
    "add-residual-at-pitch-of-x", "backward-rstd-of-first-row", "backward-dx-over-dy-too-early",
    "avx2-tail-dropped-at-31", "weighted-first-row-of-weights", "weighted-llama-takes-any-weight",
    "add-same-buffer-added-once",
)  # fmt: skip


@pytest.mark.parametrize("name", _MORE)
def test_the_explanation_names_what_was_planted(name: str) -> None:
    pack = load(built_in())
    mutant = next(each for each in pack.mutants if each.name == name)
    result = hunt(pack, mutant, 1, 4000, 1, console.silent(), Interruption("done"))
    assert result.passed, [each.trouble for each in result.hunts]
    shown = result.hunts[0]
    found = _explained(shown)
    told = explanation_of(found, shown.target)
    rules = (line for _, line in rule_lines(told))
    stated = "; ".join([what_is_wrong(told), *rules, *counterfactual_lines(told.counterfactuals)])
    assert [word for word in mutant.explained_as if word not in stated] == [], stated
    assert _is_smallest(shown, found)


def _explained(run: MutantHunt) -> Finding:
    """The finding, diagnosed with the base and all targets, also those on which the mutant need not be caught."""
    assert run.evidence is not None
    assert run.killed_by is not None
    everywhere = [each for each in expand([run.target.kernel, run.base.kernel]) if each.unavailable() is None]
    with WorkerPool(everywhere) as pool:
        return diagnose(pool, everywhere, Finding(run.evidence, run.killed_by), TimeAllowance(_EXPLAIN_S))


def _is_smallest(run: MutantHunt, found: Finding) -> bool:
    """Whether everything smaller than the shrunk case passes on its target. A stray access shows differently in
    different processes, so wrong values and faults count as the same failure."""
    assert run.killed_by is not None
    target = next(each for each in expand([run.target.kernel]) if each.id == found.target)
    with WorkerPool([target]) as pool:
        return sweep(Trials(pool, target, replace(Family.of(run.killed_by), wide=True)), found.case).smallest
