"""A pack with an op that nobody else knows, and a kernel of it in C and one in Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oracles.tests.common.judged import known

PACK = """
from pathlib import Path
from fuzz import Capabilities, CKernel, PythonKernel
from oracles.op import Op
from oracles.operand import Flip, Operand, Parameter

def leaky_gate(signal, offset, gate=None, *, slope, floor=0.0):
    bent = signal + offset * slope
    return {"bent": bent if gate is None else bent * gate + floor}

N = "... n"
OPS = (
    Op(
        leaky_gate,
        inputs=(Operand("signal", N), Operand("offset", "n"), Operand("gate", N, optional=True)),
        outputs=(Operand("bent", N),),
        parameters=(Parameter("slope", (0.5, 0.1)), Parameter("floor", (0.0, 2.0), neutral=0.0, only_with="gate")),
        aliases=(("bent", "signal"),),
    ),
)
HERE = Path(__file__).parent
ABLE = Capabilities(takes=("gate",), params=("floor",), aliases=(("bent", "signal"),))
KERNELS = (
    CKernel("bent", "leaky_gate", HERE / "bent.c", capabilities=ABLE),
    PythonKernel("bent-numpy", "leaky_gate", HERE / "bent.py", "numpy"),
)
"""
C_KERNEL = """
#include "kernelfuzz.h"
int kf_leaky_gate(const kf_leaky_gate_call *call) {
    const float *signal = call->signal.data, *offset = call->offset.data, *gate = call->gate.data;
    float *bent = call->bent.data;
    const int64_t n = call->offset.shape[0];
    int64_t elements = 1;
    for (int axis = 0; axis < call->signal.rank; axis++) elements *= call->signal.shape[axis];
    for (int64_t i = 0; i < elements; i++) {
        const float value = signal[i] + TAIL offset[i % n] * call->slope;
        bent[i] = gate ? value * gate[i] + call->floor : value;
    }
    return KF_OK;
}
"""
RIGHT, WRONG = C_KERNEL.replace("TAIL ", ""), C_KERNEL.replace("TAIL ", "(i % n % 8 == 5 ? 0.0f : 1.0f) * ")
PYTHON_KERNEL = """
import numpy as np
def leaky_gate(signal, offset, gate=None, *, slope, floor=0.0):
    value = signal + offset * np.float32(slope)
    return value if gate is None else value * gate + np.float32(floor)
"""
ARGUMENTS = ("--pack", ".", "-j", "1")
"""of the command line, in its folder."""


@contextmanager
def unknown_afterwards() -> Iterator[None]:
    """What becomes known of ops while this lasts is forgotten."""
    with known():
        yield


def write_pack(folder: Path, c: str = RIGHT, python: str = PYTHON_KERNEL) -> Path:
    """The pack, with these kernels."""
    for name, text in {"pack.py": PACK, "bent.c": c, "bent.py": python}.items():
        (folder / name).write_text(text)
    return folder
