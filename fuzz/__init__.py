"""The public names for packs and test suites: the declarations and `check`. Importing this package loads nothing heavy.

Names are looked up when they are first used, since pytest imports this package in every suite of its environment.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING
from warnings import warn

from fuzz.core.base import __version__ as __version__

if TYPE_CHECKING:
    import fuzz.formula as formula
    from fuzz.core.adapters.c_kernel import CKernel
    from fuzz.core.adapters.command_kernel import CommandKernel
    from fuzz.core.adapters.prototyped_kernel import CudaKernel, SharedKernel
    from fuzz.core.adapters.python_kernel import PythonKernel
    from fuzz.core.base.capability import Capabilities
    from fuzz.core.base.kernel import Mutant
    from fuzz.references.backward import backward
    from fuzz.references.derive import op_of
    from fuzz.references.repeated import repeated
    from fuzz.tasks.blocks import check_blocks
    from fuzz.tasks.bound import OutputBound, assert_right, bound
    from fuzz.tasks.chance import check_random, philox, philox_uniform
    from fuzz.tasks.check.check import CheckError, CheckFailed, check
    from fuzz.tasks.conversion import check_conversion, every
    from fuzz.tasks.extents import far_apart
    from fuzz.tasks.judge.module import check_module
    from fuzz.tasks.judge.own import drawn
    from fuzz.tasks.judge.python import judge
    from fuzz.tasks.judge.ruling import Ruling
    from oracles.formula.contract import Besides, Contract, Within
    from oracles.op import Op
    from oracles.operand import Flip, Operand, Parameter
    from oracles.ops import register
    from oracles.summation import AnyOrder, Blocks, Lanes, Pairwise, Sequential, Steps, Tiles, VectorLanes

__all__ = [
    "AnyOrder",
    "Besides",
    "Blocks",
    "CKernel",
    "Capabilities",
    "CheckError",
    "CheckFailed",
    "CommandKernel",
    "Contract",
    "CudaKernel",
    "Flip",
    "Lanes",
    "Mutant",
    "Op",
    "Operand",
    "OutputBound",
    "Pairwise",
    "Parameter",
    "PythonKernel",
    "Ruling",
    "Sequential",
    "SharedKernel",
    "Steps",
    "Tiles",
    "VectorLanes",
    "Within",
    "assert_right",
    "backward",
    "bound",
    "check",
    "check_blocks",
    "check_conversion",
    "check_module",
    "check_random",
    "drawn",
    "every",
    "far_apart",
    "formula",
    "judge",
    "op_of",
    "philox",
    "philox_uniform",
    "register",
    "repeated",
]

_HOME = {
    "CKernel": "fuzz.core.adapters.c_kernel",
    "CommandKernel": "fuzz.core.adapters.command_kernel",
    "Capabilities": "fuzz.core.base.capability",
    **dict.fromkeys(("CheckError", "CheckFailed", "check"), "fuzz.tasks.check.check"),
    **dict.fromkeys(("OutputBound", "assert_right", "bound"), "fuzz.tasks.bound"),
    "check_blocks": "fuzz.tasks.blocks",
    **dict.fromkeys(("check_conversion", "every"), "fuzz.tasks.conversion"),
    "check_module": "fuzz.tasks.judge.module",
    **dict.fromkeys(("check_random", "philox", "philox_uniform"), "fuzz.tasks.chance"),
    "far_apart": "fuzz.tasks.extents",
    "drawn": "fuzz.tasks.judge.own",
    "judge": "fuzz.tasks.judge.python",
    "Ruling": "fuzz.tasks.judge.ruling",
    **dict.fromkeys(("Besides", "Contract", "Within"), "oracles.formula.contract"),
    "Mutant": "fuzz.core.base.kernel",
    "CudaKernel": "fuzz.core.adapters.prototyped_kernel",
    "PythonKernel": "fuzz.core.adapters.python_kernel",
    "SharedKernel": "fuzz.core.adapters.prototyped_kernel",
    **dict.fromkeys(("Flip", "Operand", "Parameter"), "oracles.operand"),
    "Op": "oracles.op",
    "backward": "fuzz.references.backward",
    "op_of": "fuzz.references.derive",
    "repeated": "fuzz.references.repeated",
    "register": "oracles.ops",
}
"""The module of each name. Names that are missing here are orders of sums."""


def __getattr__(name: str) -> object:
    if name == "Any":  # kept until the next version: it shadows typing.Any
        warn("fuzz.Any is fuzz.AnyOrder now", DeprecationWarning, stacklevel=2)
        return __getattr__("AnyOrder")
    if name not in __all__:
        raise AttributeError(f"module 'fuzz' has no attribute {name!r}")
    if name == "formula":
        return import_module("fuzz.formula")
    found: object = getattr(import_module(_HOME.get(name, "oracles.summation")), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
