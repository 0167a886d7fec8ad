"""What a pack of kernels may import: the declarations, and nothing heavy."""

from fuzz.kernel import Capabilities, CKernel, PythonKernel
from fuzz.mutant import Mutant
from oracles.numerics import Any, Lanes, Numerics, Pairwise, Sequential, Tiles, VectorLanes

__version__ = "0.1.0"

__all__ = [
    "Any",
    "CKernel",
    "Capabilities",
    "Lanes",
    "Mutant",
    "Numerics",
    "Pairwise",
    "PythonKernel",
    "Sequential",
    "Tiles",
    "VectorLanes",
]
