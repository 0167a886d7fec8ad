"""The detection floor of a problem: how far an output must be off to be seen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import islice

import numpy as np

from fuzz.core.base.kernel import Kernel
from fuzz.core.generate.search import Search, batches
from fuzz.core.judge.values import problem_of
from oracles.formula.contract import Contract
from oracles.ops import OPS
from oracles.summation import NumericsError
from oracles.truth import Truth

_TURNS, _MOST_ELEMENTS, _FEW, _DIGITS = 3, 1024, 2, 2


def detection_floors(op: str, seed: int, kernels: Sequence[Kernel], contract: Contract) -> Mapping[str, float]:
    """Return, by the dtype of the first input, the error of an output as a share of itself that is seen in half of the
    elements: of ordinary cases of a search, under a contract."""
    shares = defaultdict[str, list[float]](list)
    turns = islice(batches(Search(op, seed, kernels)), _TURNS)
    cases = sorted((made.case for some in turns for made in some if made.case.elements), key=lambda case: case.elements)
    # Weights alone may be more.
    for case in [each for each in cases if each.elements <= _MOST_ELEMENTS] or cases[:_FEW]:
        try:
            found = Truth(problem_of(case), confirms=False).enclosures(contract, case.structured)
        except NumericsError:  # the case contradicts the contract: it is not judged
            continue
        for each in found.values():
            shares[next(iter(case.inputs.values())).dtype] += each.shares()
    return {dtype: float(f"{np.median(some):.{_DIGITS - 1}e}") for dtype, some in sorted(shares.items()) if some}


def unvaried(op: str, seed: int, kernels: Sequence[Kernel]) -> Mapping[str, int]:
    """Return the dimensions of which all cases at the beginning of a search have one extent, although it could be
    another, with that: there is no room for more terms."""
    seen = defaultdict[str, set[int]](set)
    for batch in islice(batches(Search(op, seed, kernels)), _TURNS):
        for draw in (made.draw for made in batch if made.draw is not None):
            for dim, size in draw.sizes.items():
                seen[dim].add(size)
    return {dim: min(sizes) for dim, sizes in seen.items() if len(sizes) == 1 and dim not in OPS[op].fixed}
