"""A rule is the simplest one that agrees with every probe, and says so where it does not."""

from __future__ import annotations

import math
import re

import pytest

from fuzz.core.base.feature import Feature
from fuzz.core.generate.variations import base_of
from fuzz.explain.evidence.probes import spread, swept
from fuzz.explain.rule.inducer import induce, learn, loosened
from fuzz.explain.rule.rule import Atom, Rule, Traits
from fuzz.explain.rule.traits import MODULI, size_traits
from fuzz.tests.common.examples import plain
from fuzz.tests.common.features import ROWS, N, left, there
from fuzz.tests.common.hunting import PACK, target_of
from oracles.ops import OPS

_BITS, _OPT = Feature("target", "vector length"), Feature("target", "optimisation")
_PROBES: list[Traits] = [
    {N: n, **{left("n", m): n % m for m in MODULI}, _BITS: bits, _OPT: opt}
    for n in range(1, 140)
    for bits in (128, 256, 512)
    for opt in ("-O0", "-O2")
]


def _stated(fails: list[bool]) -> str:
    learned = learn(_PROBES, fails)
    assert learned.exact
    assert (learned.agreeing, learned.probes) == (len(_PROBES), len(_PROBES))
    return str(learned.rule)


def test_the_laws_that_users_ask_for_are_found_word_by_word() -> None:
    assert _stated([int(p[N]) % 64 == 63 for p in _PROBES]) == "n mod 64 = 63"
    assert _stated([int(p[N]) % 64 != 0 for p in _PROBES]) == "n mod 64 != 0"
    assert _stated([int(p[N]) >= 17 for p in _PROBES]) == "n >= 17"
    assert _stated([p[_OPT] == "-O0" for p in _PROBES]) == "optimisation = -O0"
    both = [int(p[N]) % 64 != 0 and int(p[_BITS]) >= 256 for p in _PROBES]
    assert set(_stated(both).split(" and ")) == {"n mod 64 != 0", "vector length >= 256"}
    assert _stated([True] * len(_PROBES)) == ""


@pytest.mark.parametrize(("relation", "limit", "said"), [("<=", -999, "= 0"), (">=", -998, "> 0"), ("<=", 3, "< 2^4")])
def test_a_power_of_two_that_stands_for_nothing_is_said_as_zero(relation: str, limit: int, said: str) -> None:
    atom = Atom(Feature("in ulp", "eps", operand="mean square"), relation, (limit,), 1.0)
    assert str(atom) == f"eps {said} ulp of the mean square"


def test_what_no_rule_states_is_not_claimed() -> None:
    fails = [int(p[N]) % 11 == 3 for p in _PROBES]
    learned = learn(_PROBES, fails)
    assert not learned.exact
    assert learned.agreeing < learned.probes
    agreeing = sum(learned.holds(p) == bad for p, bad in zip(_PROBES, fails, strict=True))
    assert agreeing == learned.agreeing


@pytest.mark.parametrize("alone", [0.37, 1.0])
def test_a_real_number_that_nobody_would_write_is_no_condition_by_itself(alone: float) -> None:
    """One case of a search fails, of which nobody has the numbers again; at 1 a kernel may be wrong."""
    largest = Feature("magnitude", "x", "largest")
    values = [0.01 * place for place in range(1, 200) if place not in (37, 100)]
    learned = learn([{largest: value} for value in (*values, alone)], [False] * len(values) + [True])
    said = [(atom.relation, *atom.values) for atom in learned.rule.atoms]
    assert (("=", alone) in said) == (alone == 1.0), said


def test_a_pattern_of_values_is_no_condition_that_only_hides() -> None:
    """A kernel that is wrong in long rows whose first element is the largest was told by its length alone."""
    first = Feature("first row pattern", "x", "largest in magnitude at its first element")
    rule = Rule(
        (Atom(N, ">=", (33,), 1.0), Atom(first, "=", ("yes",), 1.0), Atom(Feature("zero", "x"), "=", ("no",), 1.0))
    )
    probes: list[Traits] = [{N: 40, first: "yes", Feature("zero", "x"): "no"}] * 9
    assert str(loosened(rule, (probes, [True] * 9))) == f"n >= 33 and {Atom(first, '=', ('yes',), 1.0)}"
    absent = Rule((Atom(N, ">=", (33,), 1.0), Atom(first, "=", ("no",), 1.0)))
    assert str(loosened(absent, ([{N: 40, first: "no"}] * 9, [True] * 9))) == "n >= 33"


def test_values_that_cases_of_a_search_need_are_a_condition_of_their_own() -> None:
    """Around a failure all values were small, so that the length alone was told of a kernel that needs both."""
    size = Feature("magnitude", "x", "largest")
    rule = Rule((Atom(N, ">=", (257,), 1.0), Atom(size, "<", (0.5,), 1.0)))
    near: list[Traits] = [{N: 300, size: 0.1}] * 9
    large: list[Traits] = [{N: 300, size: 4.0}] * 20
    assert str(loosened(rule, (near, [True] * 9))) == "n >= 257"
    assert loosened(rule, (near, [True] * 9), (near + large, [True] * 9 + [False] * 20)) == rule
    assert str(loosened(rule, (near, [True] * 9), (large[:3], [False] * 3))) == "n >= 257", "three may be chance"


def test_there_is_no_rule_without_a_failure() -> None:
    with pytest.raises(ValueError, match="nothing failed"):
        learn(_PROBES, [False] * len(_PROBES))


def test_what_no_probe_tells_from_the_rule_is_a_rival_of_it() -> None:
    """Nothing was tried that is 16 elements more or less than a multiple of 32, behind the threshold."""
    tried = (*range(1, 41), *range(120, 137), *(n + step for n in range(160, 400, 32) for step in (0, 1)))
    probes = [{N: n, **{left("n", m): n % m for m in (8, 16, 32)}} for n in tried]
    induced = induce(probes, [int(probe[N]) >= 129 and int(probe[N]) % 32 != 0 for probe in probes])
    assert str(induced.learned.rule) == "n >= 129 and n mod 16 != 0"
    assert "n >= 129 and n mod 32 != 0" in map(str, induced.rivals)


def test_bands_that_repeat_themselves_are_what_is_left_over_a_block() -> None:
    """A list of them agrees with these probes too, and would end where they end."""
    tried = (1, 2, 3, 4, 5, 7, 8, 9, 11, 12)
    probes = [{ROWS: rows, **{left("rows", m): rows % m for m in (2, 3, 4)}} for rows in tried]
    induced = induce(probes, [rows >= 4 and rows % 3 != 0 for rows in tried])
    found = {str(rule) for rule in (induced.learned.rule, *induced.rivals)}
    assert "rows >= 4 and rows mod 3 != 0" in found


def test_what_rarely_fails_for_another_reason_is_an_alternative() -> None:
    """It is one, though a value hides one of its failures, which are less than one in a hundred."""
    step, over, after = Feature("step", "x"), Feature("in place", "y", operand="x"), Feature("after the axis")
    probes: list[Traits] = [
        {step: str(1 + n % 3), over: "no" if n % 25 else "yes", after: n % 7} for n in range(1, 9001)
    ]
    fails = [probe[step] != "1" if probe[over] == "no" else int(probe[after]) >= 6 for probe in probes]
    assert fails[125 - 1]
    fails[125 - 1] = False
    learned = learn(probes, fails)
    stated = {str(rule) for rule in (learned.rule, *learned.others)}
    assert stated == {f"{over} = no and {step} != 1", f"{over} = yes and {after} >= 6"}
    assert learned.exceptions == 1


def test_blocks_of_a_power_of_two_are_counted_by_their_elements() -> None:
    """As in a kernel that takes as many rows at a time as 1,024 elements hold, and fails with a second program."""
    target = target_of(PACK.kernel("weighted"))
    sizes = [(n, rows) for n in range(1, 1200, 7) for rows in range(1, 40)]
    probes = [size_traits(OPS["rms_norm"], {"n": n}, (rows,), target) for n, rows in sizes]
    at_a_time = [max(1, 1024 // (1 << (n - 1).bit_length())) for n, _ in sizes]
    learned = learn(probes, [rows > each for (_, rows), each in zip(sizes, at_a_time, strict=True)])
    assert learned.exact
    assert re.fullmatch(r"rows >= 2 and rows \* next_power_of_2\(n\) >= 1\d\d\d", str(learned.rule))
    assert not learned.others


@pytest.mark.parametrize(("rows", "n"), [(1, 65537), (65537, 1), (257, 257)])
def test_a_limit_of_a_product_is_told_from_limits_of_its_extents(rows: int, n: int) -> None:
    """The smallest case that fails may have one long extent alone: shapes of as many elements show what matters."""
    target, base = target_of(PACK.kernel("weighted")), base_of(plain(n, rows))
    around = [draw for one, other in (swept(base, target), ([], list(spread(base)))) for draw in (*one, *other)]
    probes = [size_traits(OPS["rms_norm"], {"n": draw.n}, draw.batch, target) for draw in around]
    learned = learn(probes, [draw.n * math.prod(draw.batch) > 65536 for draw in around], len(around) - 1)
    assert learned.exact
    assert re.fullmatch(r"rows \* n >= 65\d\d\d", str(learned.rule))


def test_an_axis_that_is_taken_for_another_of_its_length_is_one_condition_in_every_rank() -> None:
    """As in a kernel that looks for the axis of a weight by its length. By rank it would be two causes."""
    target, extents = target_of(PACK.kernel("weighted")), range(1, 7)
    grids = [*((one,) for one in extents), *((one, other) for one in extents for other in (1, 2, 5))]
    probes = [size_traits(OPS["rms_norm"], {"n": n}, grid, target) for grid in grids for n in extents]
    learned = learn(probes, [n in grid for grid in grids for n in extents], 0)
    assert (str(learned.rule), learned.exact, learned.others) == ("an outer extent = n", True, ())
    flat = [(rows, n) for rows in extents for n in extents]
    probes = [size_traits(OPS["rms_norm"], {"n": n}, (rows,), target) for rows, n in flat]
    assert str(learn(probes, [rows == n for rows, n in flat], 0).rule) == "n = rows", "plainer, where no rank is 3"


def test_that_a_tensor_is_there_is_said_rather_than_what_its_memory_is_to_another() -> None:
    """Two inputs are two buffers wherever both are there, where no kernel takes one buffer for both."""
    is_one, gate = Feature("one buffer", "gate", operand="signal"), there("gate")
    without, with_it = {gate: "absent"}, {is_one: "no", gate: "there"}
    probes: list[Traits] = [{**each, N: n} for n in range(2, 12) for each in (without, with_it)]
    fails = [each[gate] == "there" for each in probes]
    assert str(learn(probes, fails).rule) == "gate = there"
    assert is_one.cost > Feature("power of two", "n").cost == Feature("axis is first").cost


def test_how_an_input_lies_is_said_rather_than_which_extents_differ() -> None:
    """Where no probe tells them apart."""
    layout, square = Feature("layout", "x"), Feature("compared", "m", "=", "n")
    laid = ("contiguous", "transposed", "padded")
    probes: list[Traits] = [{layout: each, square: "yes" if each == laid[0] else "no"} for each in 9 * laid]
    assert str(learn(probes, [each[layout] != laid[0] for each in probes]).rule) == "layout of x != contiguous"


def test_a_rare_cause_shares_the_other_conditions_with_a_usual_one() -> None:
    """By itself, few rows would do to tell those that fail by it."""
    usual = [("there", word, rows) for word in ("there", "absent") for rows in range(1, 200)]
    rare = [("absent", "there", rows) for rows in (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 20)]
    never = [("absent", "absent", rows) for rows in range(1, 20)]
    residue = left("rows", 8)
    probes: list[Traits] = [
        {there("db"): db, there("dw"): dw, ROWS: rows, residue: rows % 8} for db, dw, rows in (*usual, *rare, *never)
    ]
    learned = learn(probes, [each[residue] in (1, 2, 3) and "there" in each.values() for each in probes])
    rows_are = "rows mod 8 in {1, 2, 3}"
    assert [str(rule) for rule in (learned.rule, *learned.others)] == [
        f"db = there and {rows_are}", f"dw = there and {rows_are}",
    ]  # fmt: skip


def test_a_rule_that_needs_one_of_two_further_conditions_is_stated_with_either() -> None:
    """What is wrong with a row of one element shows in one of the outputs alone. Hardly any probe is one."""
    some = [(n, rstd) for n in range(2, 400) for rstd in ("there", "absent")]
    residue, is_there = left("n", 8), there("rstd")
    probes: list[Traits] = [
        {N: n, residue: n % 8, is_there: rstd, ROWS: rows}
        for n, rstd in (*some, *[(1, "there")] * 30, *[(1, "absent")] * 6)
        for rows in (1, 2)
    ]
    learned = learn(probes, [each[residue] != 0 and (each[N] != 1 or each[is_there] == "there") for each in probes])
    assert learned.exact
    stated = {str(rule) for rule in (learned.rule, *learned.others)}
    assert stated == {"rstd = there and n mod 8 != 0", "n >= 2 and n mod 8 != 0"}


def test_a_rival_of_an_alternative_has_another_condition_beside_all_other_alternatives() -> None:
    """No probe lays one of two outputs over the input without the other: which one matters?"""
    steps, odd = Feature("step", "x"), left("n", 2)
    over_x, sum_over_x = (Feature("in place", name, operand="x") for name in ("y", "sum"))
    probes: list[Traits] = [
        {steps: step, over_x: over, sum_over_x: over, N: n, odd: n % 2}
        for n in range(1, 40)
        for step in ("1", "2")
        for over in ("no", "yes")
    ]
    fails = [(each[steps] == "2") if each[over_x] == "no" else each[odd] == 1 for each in probes]
    induced = induce(probes, fails)
    assert {str(rule) for rule in (induced.learned.rule, *induced.learned.others)} == {
        f"{over_x} = no and {steps} = 2", f"{over_x} = yes and n mod 2 != 0",
    }  # fmt: skip
    only_sum: Traits = {steps: "2", over_x: "no", sum_over_x: "yes", N: 4, odd: 0}
    assert induced.learned.holds(only_sum)
    rivals = [rule for rule in induced.rivals if not rule.holds(only_sum)]
    agreeing = [sum(rule.holds(each) == bad for each, bad in zip(probes, fails, strict=True)) for rule in rivals]
    assert max(agreeing, default=0) == len(probes)
