"""Traits of a case and its twin together: a kernel breaks a law if it treats the two differently, so it matters what
the law changes, and not which of the two is right."""

from __future__ import annotations

import math
from collections.abc import Iterator

from fuzz.core.base.case import Case
from fuzz.core.base.draw import Frame
from fuzz.core.base.feature import Feature
from fuzz.explain.rule.rule import Trait, Traits, word
from fuzz.explain.rule.traits import ADDRESSES, ROW_MODULI, case_traits, parameters_of
from fuzz.explain.rule.values import change_of
from oracles.ops import OPS

_SIDES = {(True, True): "both", (False, False): "neither", (True, False): "one side", (False, True): "one side"}


def twin_traits(case: Case, twin: Case) -> Traits:
    """Return the traits of what the law changes: which of the two lies at an aligned address, how the twin lies in
    memory, and the smaller and larger of their numbers. A limit lies between the two numbers if a kernel treats the two
    differently."""
    own, other = case_traits(case, values=False), case_traits(twin, values=False)
    main = OPS[case.op].main
    traits = dict(_places(case, own, other))
    for name in (each.name for each in OPS[case.op].parameters if each.power and each.name in case.params):
        same = change_of(case, name) == change_of(twin, name)
        traits[Feature("change of two", name, operand=main)] = word(same, "same", "differ")
    for trait in own:
        if trait in other and trait.kind in ("layout", "rows of", "in place"):
            traits[Feature("twin's", trait.text)] = other[trait]
            traits[Feature("as the twin's", trait.text)] = word(own[trait] == other[trait], "same", "differ")
    ours, theirs = (dict(_numbers(each)) for each in (case, twin))
    for name, modulus in (each for each in ours if each in theirs):  # their order decides which of two equals is stated
        both = ours[name, modulus], theirs[name, modulus]
        for which, number in (("smaller", min(both)), ("larger", max(both))):
            traits[Feature("remainder of two" if modulus else "of two", name, which, modulus)] = number
    return traits


def _places(case: Case, own: Traits, other: Traits) -> Iterator[tuple[Feature, Trait]]:
    for name in (OPS[case.op].main, *case.outputs):
        for modulus in ADDRESSES:
            trait = Feature("address", name, operand=modulus)
            if trait in own and trait in other:
                yield Feature("twin at", name, operand=modulus), _SIDES[own[trait] == 0, other[trait] == 0]


def _numbers(case: Case) -> Iterator[tuple[tuple[str, int | str], float]]:
    """Yield the numbers that laws change and kernels may depend on, parameters and counts of rows, by name and
    block."""
    yield from (((each.subject, ""), value) for each, value in parameters_of(case))
    op, frame = OPS[case.op], Frame(case)
    extents = {op.batch_name: math.prod(frame.batch), **({"the first extent": frame.batch[0]} if frame.batch else {})}
    extents |= {dim: size for dim, size in frame.sizes.items() if op.dimensions[dim].batched and dim != op.row}
    for name, extent in extents.items():
        yield (name, ""), extent
        yield from (((name, modulus), extent % modulus) for modulus in ROW_MODULI)
