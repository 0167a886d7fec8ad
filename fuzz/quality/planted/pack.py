"""Every planted bug as a kernel of its own, and for each op the kernel without one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from fuzz.core.adapters.python_kernel import PythonKernel
from fuzz.core.base.capability import Capabilities
from fuzz.quality.planted.bug import ANY
from fuzz.quality.planted.bugs import BUGS
from fuzz.quality.planted.kernels import FORMULAS
from oracles import ops
from oracles.formula.contract import Contract
from oracles.operand import OUTER
from oracles.summation import AnyOrder

_SOURCE = Path(__file__).resolve().parent / "kernels.py"


def _kernels() -> Iterator[PythonKernel]:
    for op in FORMULAS:
        yield _kernel(f"right-{op}", op, "", ANY, "no planted bug")
    for bug in BUGS.values():
        yield _kernel(bug.name, bug.op, bug.name, bug.able, bug.rule)


def _kernel(name: str, op: str, bug: str, able: Capabilities, summary: str) -> PythonKernel:
    if able.takes is None:
        able = replace(able, takes=tuple(each for each in ops.OPS[op].optional if each not in able.needs))
    return PythonKernel(
        name, op, _SOURCE, "numpy", Contract("f64", sums={ops.OPS[op].row: AnyOrder(), OUTER: AnyOrder()}),
        replace(able, params=tuple(ops.OPS[op].neutral)), entry="planted", options=(("op", op), ("bug", bug)),
        summary=summary,
    )  # fmt: skip


KERNELS = tuple(_kernels())
