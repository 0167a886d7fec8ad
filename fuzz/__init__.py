"""What a pack of kernels and a test suite may import: the declarations and `check`, and nothing heavy.

Names are looked up when they are first used: pytest imports this package in every suite that it is installed beside.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fuzz.checking.check import CheckError, CheckFailed, check
    from fuzz.kernel import Capabilities, CKernel, PythonKernel
    from fuzz.mutant import Mutant
    from oracles.numerics import Any, Lanes, Numerics, Pairwise, Sequential, Tiles, VectorLanes

__version__ = "0.1.0"

__all__ = [
    "Any",
    "CKernel",
    "Capabilities",
    "CheckError",
    "CheckFailed",
    "Lanes",
    "Mutant",
    "Numerics",
    "Pairwise",
    "PythonKernel",
    "Sequential",
    "Tiles",
    "VectorLanes",
    "check",
]

_HOME = {
    **dict.fromkeys(("CKernel", "Capabilities", "PythonKernel"), "fuzz.kernel"),
    **dict.fromkeys(("CheckError", "CheckFailed", "check"), "fuzz.checking.check"),
    "Mutant": "fuzz.mutant",
}
"""the module of each name; those of the oracle's declarations otherwise."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'fuzz' has no attribute {name!r}")
    found: object = getattr(import_module(_HOME.get(name, "oracles.numerics")), name)
    globals()[name] = found
    return found
