"""A failing kernel's outputs are judged under neighbouring contracts: the declaration may be what is wrong."""

from __future__ import annotations

from dataclasses import fields, replace
from math import inf

import pytest

from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.execute.pool import WorkerPool
from fuzz.explain.causes import Pile
from fuzz.explain.finding import Finding
from fuzz.explain.stages.counterfactuals import Fitting, fitting
from fuzz.explain.trial.trial import Family, Trials
from fuzz.report.words import contract_words
from fuzz.tests.common.hunting import PACK, failures, mutant, target_of
from oracles.formula.contract import Contract
from oracles.neighbours import declaration, neighbours, pairs
from oracles.ops import OPS
from oracles.summation import Lanes, Sequential

FIELDS = [each.name for each in fields(Contract)]


@pytest.mark.whole
def test_a_declaration_that_lacks_a_rounding_point_is_asked_for() -> None:
    declared = PACK.kernel("weighted-llama")
    assert isinstance(declared, CKernel)
    target = target_of(replace(declared, contract=Contract()), "O2")
    with WorkerPool([target]) as pool:
        found = failures(pool, target, 12)
        trials = Trials(pool, target, Family.of(found[0][1]))
        trials.judge([case for case, _ in found])
        pile = Pile()
        pile.add(Finding(*found[0]))  # as a run keeps what waits to be explained
        fit = fitting(trials, [(each.case, each.judgement) for each in pile.findings], lambda: False)
    assert fit is not None
    assert contract_words(fit.told).startswith("conforms to points={'h': 'input'}, that is, with h = x * rstd rounded ")
    assert contract_words(fit.told).endswith("; now it is held to points={}")


@pytest.mark.whole
def test_a_layer_norm_of_moments_is_told_as_one_by_the_first_case_that_fails() -> None:
    """What is tried is drawn: a failure by large values is shrunk by such, which a layer norm of moments says nothing
    of; and nothing that was probed before, and may be more on a faster machine, is asked for."""
    target = target_of(mutant("layer-norm-moments"), "O2")
    with WorkerPool([target]) as pool:
        found = failures(pool, target, 2)
        texts = []
        for case, judgement in found:
            trials = Trials(pool, target, Family.of(judgement))
            fit = fitting(trials, [(case, judgement)], lambda: False)
            assert fit is not None
            assert fit.telling
            texts.append(fit.neighbour.text)
            assert trials.runs <= 64
    assert texts == ["algorithm={'var': 'moments'}"] * 2


@pytest.mark.parametrize(
    ("width", "typical", "used", "telling"),
    [
        (1.0, 1.0, 0.0, True),  # as narrow: that it fits is no accident
        (2.8, 1.1, 0.3, True),
        (2.8, 1.1, 0.001, False),
        (60_000.0, 1.0, 0.2, True),  # such as of moments, where the mean is large
        (60_000.0, 60_000.0, 0.2, False),
    ],
)
def test_what_fits_everything_is_not_said_first(width: float, typical: float, used: float, telling: bool) -> None:
    neighbour = neighbours(OPS["rms_norm"], Contract())[0]
    found = Fitting(neighbour, Contract(), width, typical, used, 12, 6)
    assert found.telling == telling
    assert ("now it is held to" in contract_words(found.told)) == telling
    assert ("proves little" in contract_words(found.told)) != telling


_EXCUSES = (3.75, 0.6, False), (3.75, 0.01, True), (1.2, 0.0, False)


@pytest.mark.parametrize(("typical", "spread", "excuses"), _EXCUSES)
def test_what_allows_more_all_over_for_one_window_is_an_excuse(typical: float, spread: float, excuses: bool) -> None:
    """As of a softplus that is 20 ulp off all over, of one that is wrong from 10 to 13 alone, and of moments."""
    neighbour = neighbours(OPS["rms_norm"], Contract())[0]
    assert Fitting(neighbour, Contract(), 3.75, typical, 0.77, 12, 6, spread).excuses == excuses


def test_of_those_that_fit_the_narrowest_is_told() -> None:
    """Where the kernel fails first, where it passes then, and by a tenth last."""
    known = neighbours(OPS["logsumexp"], Contract())
    widths = [(1.0, 3.1), (1.0, 1.4), (1.3, 1.0), (0.9, 1.2), (1.0, 1.0), (2.0, 1.0)]
    found = [Fitting(each, Contract(), *both, 0.5, 12, 6) for each, both in zip(known, widths, strict=False)]
    assert [widths.index((each.width, each.typical)) for each in sorted(found, key=lambda each: each.rank)] == [
        1, 3, 4, 2, 0, 5,
    ]  # fmt: skip


def test_an_algorithm_that_breaks_down_wherever_the_kernel_fails_is_said_first() -> None:
    """For another field that judges nothing there it is not enough: 'nonfinite' fits any bug of large values."""
    known = neighbours(OPS["layer_norm"], Contract())
    for name, typical, telling in (("algorithm", 1.0, True), ("algorithm", 5.0, False), ("nonfinite", 1.0, False)):
        neighbour = next(each for each in known if each.changed == (name,))
        assert Fitting(neighbour, Contract(), inf, typical, 0.0, 12, 6).telling == telling, name


def test_another_way_may_allow_more_where_the_kernel_passes_than_another_field() -> None:
    """Welford's squares allow 5.0 times as much."""
    known = neighbours(OPS["layer_norm"], Contract())
    for name, typical, telling in (("algorithm", 5.0, True), ("algorithm", 7.0, False), ("sums", 5.0, False)):
        neighbour = next(each for each in known if each.changed == (name,))
        assert Fitting(neighbour, Contract(), 70.0, typical, 0.5, 12, 6).telling == telling, name


@pytest.mark.parametrize(
    ("width", "said"),
    [(1.2, "as much"), (2.51, "2.5 times as much"), (4e14, "more than 10,000 times as much"), (inf, "everything")],
)
def test_how_much_more_a_neighbour_allows_is_said_in_figures_that_can_be_read(width: float, said: str) -> None:
    [neighbour, *_] = neighbours(OPS["softmax"], Contract())
    assert f"which allows {said} there" in contract_words(Fitting(neighbour, Contract(), width, 1.0, 0.5, 12, 6).told)


def test_of_a_local_whose_ways_are_open_the_formula_is_named() -> None:
    """To say nothing of it allows all of them."""
    said = [each.text for each in neighbours(OPS["logsumexp"], Contract(algorithm={"most": "finite"}))]
    assert "algorithm={'most': 'formula'}" in said
    assert "algorithm={}" not in said
    assert "algorithm={'most': 'formula'}" not in [each.text for each in neighbours(OPS["logsumexp"], Contract())]


def test_a_neighbour_differs_in_one_field_and_a_pair_in_two() -> None:
    op = OPS["layer_norm"]
    of = Contract(sums={"n": Lanes(8, 4, "scalar")}, accuracy={"rsqrt": 2.0})
    for known, count in ((neighbours(op, of), 1), (list(pairs(neighbours(op, of)))[::50], 2)):
        assert known
        for each in known:
            differing = [
                name for name in vars(of) if name[0] != "_" and getattr(of, name) != getattr(each.contract, name)
            ]
            assert len(each.changed) == count
            assert {*differing} == {*each.changed}
            assert each.of(of) != each.text


def test_every_neighbour_can_be_pasted() -> None:
    for each in neighbours(OPS["softmax"], Contract(sums={"n": Sequential()})):
        names = {"Contract": Contract, "Sequential": Sequential} | {
            type(order).__name__: type(order) for order in each.contract.sums.values()
        }
        assert eval(declaration(each.contract), names) == each.contract
