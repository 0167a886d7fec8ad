"""What a pack of kernels may import: the declarations, and nothing heavy."""

from fuzz.kernel import Capabilities, CKernel
from fuzz.mutant import Mutant
from oracles.numerics import Lanes, Numerics, Sequential, VectorLanes

__version__ = "0.1.0"

__all__ = ["CKernel", "Capabilities", "Lanes", "Mutant", "Numerics", "Sequential", "VectorLanes"]
