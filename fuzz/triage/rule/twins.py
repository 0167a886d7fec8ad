"""What a law changes, as traits: of the case and its twin together, since a kernel breaks a law where it treats the two
differently, whichever of them is treated well."""

from __future__ import annotations

import math
from collections.abc import Iterator

from fuzz.base.case import Case
from fuzz.base.draw import Frame
from fuzz.triage.rule.rule import LARGER, SMALLER, Trait, Traits
from fuzz.triage.rule.traits import ADDRESSES, ROW_MODULI, case_traits, parameters_of
from fuzz.triage.rule.values import change_of
from oracles.ops import OPS

_SIDES = {(True, True): "both", (False, False): "neither", (True, False): "one side", (False, True): "one side"}


def twin_traits(case: Case, twin: Case) -> Traits:
    """Which of the two is at an aligned address, the twin's words about memory and whether they are the case's, and the
    smaller and the larger of their numbers: a limit lies between these where a kernel treats the two differently."""
    own, other = case_traits(case, values=False), case_traits(twin, values=False)
    main = OPS[case.op].main
    traits = dict(_places(case, own, other))
    for name in (each.name for each in OPS[case.op].parameters if each.power and each.name in case.params):
        same = change_of(case, name) == change_of(twin, name)
        traits[f"the change of {name} in the dtype of {main} and the twin's"] = _same(same)
    for trait in own:
        if trait in other and (trait.startswith(("layout of ", "rows of ")) or " in place of " in trait):
            traits[f"the twin's {trait}"] = other[trait]
            traits[f"{trait} and that of the twin"] = _same(own[trait] == other[trait])
    ours, theirs = (dict(_numbers(each)) for each in (case, twin))
    for trait in (each for each in ours if each in theirs):  # in their order: of two that say the same one is stated
        traits[SMALLER.format(trait)] = min(ours[trait], theirs[trait])
        traits[LARGER.format(trait)] = max(ours[trait], theirs[trait])
    return traits


def _places(case: Case, own: Traits, other: Traits) -> Iterator[tuple[str, Trait]]:
    for name in (OPS[case.op].main, *case.outputs):
        for modulus in ADDRESSES:
            trait = f"address of {name} mod {modulus}"
            if trait in own and trait in other:
                yield f"{name} at a multiple of {modulus}", _SIDES[own[trait] == 0, other[trait] == 0]


def _numbers(case: Case) -> Iterator[tuple[str, float]]:
    """What laws change that kernels may choose by: parameters, and how many rows there are."""
    yield from parameters_of(case)
    op, frame = OPS[case.op], Frame(case)
    extents = {op.batch_name: math.prod(frame.batch), **({"the first extent": frame.batch[0]} if frame.batch else {})}
    extents |= {dim: size for dim, size in frame.sizes.items() if op.dimensions[dim].batched and dim != op.row}
    for name, extent in extents.items():
        yield name, extent
        yield from ((f"{name} mod {modulus}", extent % modulus) for modulus in ROW_MODULI)


def _same(what: bool) -> str:
    return "same" if what else "differ"
