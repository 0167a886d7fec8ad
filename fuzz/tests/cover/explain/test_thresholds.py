"""A threshold is said as the plainest number between the probes on either side of it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from fuzz.core.base.case import Case, Layout, Output, Tensor
from fuzz.core.base.dtypes import quantise
from fuzz.core.base.feature import Feature
from fuzz.core.generate.variations import base_of, made
from fuzz.explain.evidence.evidence import closing
from fuzz.explain.rule.bounds import Probed, fades, plainest, plainly
from fuzz.explain.rule.rule import Atom, Columns, Learned, Rule, atoms_of
from fuzz.explain.rule.traits import case_traits
from fuzz.tests.common.examples import plain
from fuzz.tests.common.features import ROWS, N

_TRAIT = Feature("magnitude", "x", "largest")


@pytest.mark.parametrize(
    ("limit", "beyond", "said"),
    [
        (7604.0, 7590.0, 7600.0),
        (1.85e19, 1.84e19, 2.0**64),
        (5.99e-8, 6.02e-8, 6e-8),
        (-10016.0, -9990.0, -10000.0),
        (0.5, 0.0, 0.2),
    ],
)
def test_few_digits_are_said_and_powers_of_two_before_others(limit: float, beyond: float, said: float) -> None:
    assert plainest(limit, beyond) == said
    assert min(limit, beyond) <= plainest(limit, beyond) <= max(limit, beyond)


def _said(failing: float, passing: float, relation: str) -> str:
    tried = [Probed({_TRAIT: failing}, True, plain(1)), Probed({_TRAIT: passing}, False, plain(1))]
    learned = Learned(Rule((Atom(_TRAIT, relation, (failing,), 1.0),)), 2, 2)
    found = plainly(learned, tried)
    assert [found.holds(each.traits) for each in tried] == [True, False]
    return str(found.rule)


def test_a_number_that_is_known_to_pass_is_left_out() -> None:
    assert _said(7604.0, 7600.0, ">=") == "largest magnitude of x > 7600"
    assert _said(7600.0, 7596.0, ">=") == "largest magnitude of x >= 7600"
    assert _said(-10003.0, -10000.0, "<=") == "largest magnitude of x < -10000"


def test_what_may_lie_far_from_its_probes_is_said_as_it_was_seen() -> None:
    assert _said(7604.0, 5000.0, ">=") == "largest magnitude of x >= 7604"
    assert _said(math.inf, 5000.0, ">=") == "largest magnitude of x = inf"


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_the_plainest_number_is_tried_itself(dtype: str) -> None:
    """Scaling a row to it rounds, and so does a dtype of 8 bits: a kernel that fails below -10000 was said to fail at
    -10000 too."""

    def row(largest: float) -> Case:
        values = quantise(np.linspace(3 * largest, largest, 9), dtype)
        x = Tensor(dtype, Layout((1, 9), (9, 1)), values.tobytes())
        return Case("softmax", {"axis": 1}, {"x": x}, {"y": Output(dtype, Layout((1, 9), (9, 1)))})

    trait, failing, passing = Feature("of rows", "x", "smallest maximum"), row(-10045.0), row(-9963.0)
    tried = [Probed(case_traits(each), each is failing, each) for each in (failing, passing)]
    rule = Rule((Atom(trait, "<=", (tried[0].traits[trait],), 1.0),))
    probes = closing(base_of(failing), rule, tried, lambda draw: case_traits(made(draw)))
    assert -10000.0 in {case_traits(made(draw))[trait] for draw in probes}


def test_what_is_nearly_as_large_as_its_dtype_allows_is_scaled_down() -> None:
    """Times 16 it is the largest number of f16, no matter what it was."""

    def row(least: float) -> Case:
        values = np.full((1, 9), least, np.float16)
        x = Tensor("f16", Layout((1, 9), (9, 1)), values.tobytes())
        return Case("softmax", {"axis": 1}, {"x": x}, {"y": Output("f16", Layout((1, 9), (9, 1)))})

    trait, failing, passing = Feature("of rows", "x", "smallest maximum"), row(-57024.0), row(-49664.0)
    tried = [Probed(case_traits(each), each is failing, each) for each in (failing, passing)]
    rule = Rule((Atom(trait, "<=", (-57024.0,), 1.0),))
    probes = closing(base_of(failing), rule, tried, lambda draw: case_traits(made(draw)))
    assert all(-57024.0 < float(case_traits(made(draw))[trait]) < -49664.0 for draw in probes)


def test_one_row_is_scaled_where_it_matters_how_far_rows_lie_apart() -> None:
    """With all rows scaled alike a threshold of 1000 was said as 1024, or not at all."""

    def rows(largest: float) -> Case:
        values = np.array([[largest] * 9, [1.0] * 9, [0.5] * 9], np.float32)
        shape = Layout((3, 9), (9, 1))
        x = Tensor("f32", shape, values.tobytes())
        return Case("softmax", {"axis": 1}, {"x": x}, {"y": Output("f32", shape)})

    trait, failing, passing = Feature("magnitudes", "x", "that of its median row"), rows(1024.0), rows(900.0)
    tried = [Probed(case_traits(each), each is failing, each) for each in (failing, passing)]
    rule = Rule((Atom(trait, ">=", (1024.0,), 1.0),))
    probes = closing(base_of(failing), rule, tried, lambda draw: case_traits(made(draw)))
    assert sum(900 < float(case_traits(made(draw))[trait]) < 1024 for draw in probes) >= 4


def test_a_ratio_of_extents_is_tried_between_two_that_are_known() -> None:
    trait, failing, passing = Feature("ratio", "n", operand="rows"), plain(41, rows=10), plain(40, rows=11)
    tried = [Probed(case_traits(each), each is failing, each) for each in (failing, passing)]
    rule = Rule((Atom(trait, ">=", (4.1,), 1.0),))
    probes = closing(base_of(failing), rule, tried, lambda draw: case_traits(made(draw)))
    found = {float(case_traits(made(draw))[trait]) for draw in probes}
    assert len(found) >= 4
    assert all(40 / 11 < each < 4.1 for each in found)


def test_how_far_an_element_may_lie_is_found_with_one_row_that_ends_there() -> None:
    """Cases of a search end anywhere beyond the limit of an index of 16 bits."""
    trait, base = Feature("furthest", "x"), base_of(plain(34561))
    tried = [Probed(case_traits(plain(n)), n == 34561, plain(n)) for n in (34561, 40)]
    rule = Rule((Atom(trait, ">=", (34560,), 1.0),))
    probes = closing(base, rule, tried, lambda draw: case_traits(made(draw)))
    assert {32768, 33125} <= {case_traits(made(draw))[trait] for draw in probes}


def test_bands_are_tried_inside_and_beside_and_where_the_next_would_be() -> None:
    base = base_of(plain(1, rows=2))
    tried = [Probed({ROWS: rows}, rows not in (1, 3, 9), plain(1)) for rows in (1, 3, 4, 5, 7, 8, 9, 11)]
    rule = Rule((Atom(ROWS, "within", (4, 8, 11, 11), 1.0),))
    probes = [math.prod(draw.outer) for draw in closing(base, rule, tried, lambda draw: case_traits(made(draw)))]
    assert probes == [18, 6, 10, 12]


@pytest.mark.parametrize(
    ("error", "faded"),
    [
        (lambda n: 3000.0 / n, True),  # as of a mean over one element too many
        (lambda n: 3000.0, False),
        (lambda n: 1.5, False),  # by hardly more than may be, wherever it fails
    ],
)
def test_a_threshold_at_which_what_is_wrong_fades_is_a_matter_of_rounding(
    error: Callable[[int], float], faded: bool
) -> None:
    lengths = (*range(1, 60), *range(2991, 3001))
    failing = [Probed({N: n, ROWS: 1}, True, plain(1), error(n)) for n in lengths]
    tried = [*failing, Probed({N: 3001, ROWS: 1}, False, plain(1), 0.0)]
    assert fades(Rule((Atom(N, "<=", (3000,), 1.0),)), tried) is faded


def test_rows_are_told_as_they_are_and_by_what_a_mask_leaves_of_them() -> None:
    """Nothing is left of a row that is masked all over."""
    inf = math.inf
    values = np.array([[-inf, -inf, -inf], [3.0, -inf, 1.0], [5.0, math.nan, -9.0], [inf, 0.0, 9.0]], "<f4")
    layout = Layout((4, 3), (3, 1))
    x = Tensor("f32", layout, values.tobytes())
    traits = case_traits(Case("softmax", {"axis": 1}, {"x": x}, {"y": Output("f32", layout)}))
    assert traits[Feature("of rows", "x", "smallest maximum")] == -inf
    assert traits[Feature("of rows", "x", "smallest finite maximum")] == 3.0
    assert traits[Feature("of rows", "x", "widest range")] == 2.0
    assert traits[Feature("of rows", "x", "widest range, minus infinity included,")] == inf


def test_a_number_of_elements_in_blocks_is_tried_as_rows_of_a_power_of_two() -> None:
    base, trait = base_of(plain(1024, rows=4)), Feature("in blocks", "rows", operand="n")
    tried = [Probed({trait: rows * block, ROWS: rows}, block > 512, plain(1)) for rows, block in ((6, 512), (4, 1024))]
    rule = Rule((Atom(trait, ">=", (4096,), 1.0), Atom(ROWS, ">=", (4,), 1.0)))
    probes = closing(base, rule, tried, lambda draw: case_traits(made(draw)))
    assert {3073, 3276} <= {case_traits(made(draw))[trait] for draw in probes}


def test_a_product_of_two_extents_is_tried_as_several_rows() -> None:
    base, trait = base_of(plain(4099, rows=1)), Feature("product", "rows", operand="n")
    tried = [Probed({trait: product}, product >= 4099, plain(1)) for product in (4000, 4099)]
    probes = [*closing(base, Rule((Atom(trait, ">=", (4099,), 1.0),)), tried, lambda draw: case_traits(made(draw)))]
    assert {4001, 4038} <= {case_traits(made(draw))[trait] for draw in probes}
    assert any(draw.batch > (1,) for draw in probes)


def test_of_what_several_extents_make_together_only_limits_are_said() -> None:
    """17 rows of 1,024 fail, and so would many others: that they are 17,408 elements in blocks is a coincidence."""
    trait = Feature("in blocks", "rows", operand="n")
    columns = Columns([{trait: 17408, N: 1024}, {trait: 16384, N: 1000}, {trait: 20480, N: 1001}])
    found = [*atoms_of({trait: 17408, N: 1024}, columns, failures=0b1, passes=0b110)]
    assert {atom.relation for atom in found if atom.trait == trait} == {">=", "<="}
    assert {"=", ">="} <= {atom.relation for atom in found if atom.trait == N}
