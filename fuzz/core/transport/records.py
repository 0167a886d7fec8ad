"""The records of the protocol between engine and workers, little-endian. `native/worker.h` has them in C."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import get_args

from fuzz.core.base.capability import MAX_RANK
from fuzz.core.base.case import Guard
from oracles.dtypes import ITEMSIZE

REQUEST_MAGIC = 0x5152464B
RESPONSE_MAGIC = 0x5352464B
HELLO_MAGIC = 0x4548464B
LOAD_MAGIC = 0x4F4C464B
"""The first word of a frame without cases that says which kernel a Python worker is to run from now on. The worker
answers it with a hello."""

NAME_BYTES = 32
OP_BYTES = 32

HELLO = struct.Struct("<II")
FRAME = struct.Struct("<IIQII")
CASE = struct.Struct("<IBBBB32s")
INTEGER = struct.Struct("<32sIIq")
REAL = struct.Struct("<32sIId")
TENSOR = struct.Struct(f"<32sBBBBIqQ{MAX_RANK}q{MAX_RANK}q")


def tensor_struct(rank: int) -> struct.Struct:
    """Return TENSOR with a shape and strides of this rank, and zeros for the rest."""
    rest = f"{8 * (MAX_RANK - rank)}x"
    return struct.Struct(f"<32sBBBBIqQ{rank}q{rest}{rank}q{rest}")


RESPONSE = struct.Struct("<IIIBBBbqqHHiII")
DAMAGE = struct.Struct("<BBB5xqqQ")
UNWRITTEN = struct.Struct("<QQQ")

DTYPES: Mapping[str, int] = {name: code for code, name in enumerate(ITEMSIZE, 1)}
"""The values of kf_dtype in kernelfuzz.h."""
GUARDS = get_args(Guard)
KINDS = ("gap", "input", "output")
PLACES = ("before", "inside", "after")
NO_ALIAS = 0xFF
SECOND_RUN, FILLED = 1, 2
"""The flags of a case: whether to run it twice, and the factor for its fill's number, see `fuzz/core/base/fill.py`."""
AUDIT_LAST, AUDIT_EACH = 0, 1
"""The cases of a frame after which the process is checked: the last one, or each. A worker may check more often."""
KF_REJECTED = 1
UNKNOWN_BYTE = -(1 << 63)
GRACE_S = 2
"""The seconds by which the time limit that a worker is told exceeds the engine's. The worker's own timer is only needed
if the engine is gone, and may have run for a second when a case begins."""

RAN, REJECTED, FAULT, NO_MEMORY, RAISED, WRONG_SHAPE, WRONG_DTYPE, MISREAD, NOT_BUILT, OURS = range(10)
MISUSED, REPORTED, LEFT_OUT = 10, 11, 12
"""The ways in which a call may end. RAISED, WRONG_SHAPE, WRONG_DTYPE, NOT_BUILT, OURS, MISUSED, REPORTED and LEFT_OUT
come from Python workers only. These, and REJECTED from Python workers, come with words. MISREAD is an error of the
emulator, OURS one of the worker, and MISUSED one of the kernel's declaration. REPORTED is an error seen by a tool that
watches the worker. LEFT_OUT is a case that the kernel does not run in the configuration of the target."""

BROKEN_FRAME_EXIT = 70
"""The exit code of a worker that was sent something that is not a frame of its op."""
