"""The oracle: numeric contracts, exact values, certified enclosures, tolerances. It imports nothing of `fuzz`.

Importing the package loads neither NumPy nor mpmath; `oracles.truth` does.
"""

from oracles.dtypes import DtypeError
from oracles.formula.contract import Besides, Contract, Within
from oracles.summation import (
    AnyOrder,
    Blocks,
    Lanes,
    NumericsError,
    Pairwise,
    Sequential,
    Steps,
    Summation,
    Tiles,
    VectorLanes,
)

__all__ = [
    "AnyOrder",
    "Besides",
    "Blocks",
    "Contract",
    "DtypeError",
    "Lanes",
    "NumericsError",
    "Pairwise",
    "Sequential",
    "Steps",
    "Summation",
    "Tiles",
    "VectorLanes",
    "Within",
]
