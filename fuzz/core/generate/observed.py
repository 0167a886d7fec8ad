"""Values that are given the properties of an op's inputs, such as being lower triangular."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.dtypes import quantise
from oracles.dtypes import FORMATS
from oracles.op import Op
from oracles.operand import Kept
from oracles.ops import remembered

Values = NDArray[np.generic]


def made_so(kept: Kept, values: Values, dtype: str) -> Values:
    """Return values of a dtype, changed to have the kept properties. Values that have them already stay bit by bit."""
    if holds(kept, values, dtype):
        return values
    from fuzz.core.generate.properties import PROPERTIES

    with np.errstate(all="ignore"):
        wide = before = values.astype(np.float64)
        for name, numbers in reversed(kept):  # in reverse order, since sorted values stay sorted
            wide = PROPERTIES[name].made(wide, numbers)
    made = quantise(wide, dtype) if dtype in FORMATS else wide.astype(values.dtype)
    return np.where((wide == before) | (np.isnan(wide) & np.isnan(before)), values, made)


def holds(kept: Kept, values: Values, dtype: str) -> bool:
    """Whether values of a dtype have all the kept properties."""
    if not (values.size and kept):
        return True
    from fuzz.core.generate.properties import PROPERTIES

    with np.errstate(all="ignore"):
        wide, u = values.astype(np.float64), FORMATS[dtype].u if dtype in FORMATS else 0.0
        return all(PROPERTIES[name].holds(wide, numbers, u) for name, numbers in kept)


@remembered(64)
def kept_by(op: Op) -> Mapping[str, Kept]:
    """Return, by input, the properties that drawn values of an op's inputs are given."""
    return structural(op.kept)


def structural(seen: Mapping[str, Kept]) -> Mapping[str, Kept]:
    """Return the properties that drawn values are given, out of those seen in examples: all but magnitude and sign."""
    if not any(seen.values()):
        return {}
    from fuzz.core.generate.properties import PROPERTIES

    found = {name: tuple(each for each in some if not PROPERTIES[each[0]].is_range) for name, some in seen.items()}
    return {name: some for name, some in found.items() if some}


def words_of(kept: Mapping[str, Kept]) -> str:
    """Return the properties of tensors in words, like 'a lower triangular; b from 0 to 1', or '' if there are none."""
    return "; ".join(f"{name} {' and '.join(_words(*each) for each in some)}" for name, some in kept.items() if some)


def _words(name: str, numbers: tuple[float, ...]) -> str:
    from fuzz.core.generate.properties import PROPERTIES

    told = [f"{each:g}" for each in numbers]
    return PROPERTIES[name].words.format(*([" or ".join(told)] if name == "among" else told))
