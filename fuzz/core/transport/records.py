"""Records of the protocol between engine and workers. Little-endian; `native/worker.h` has the same ones in C."""

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
"""The first word of a frame without cases that says what a Python worker is to run from now on; it is answered by a
hello."""

NAME_BYTES = 32
OP_BYTES = 32

HELLO = struct.Struct("<II")
FRAME = struct.Struct("<IIQII")
CASE = struct.Struct("<IBBBB32s")
INTEGER = struct.Struct("<32sIIq")
REAL = struct.Struct("<32sIId")
TENSOR = struct.Struct(f"<32sBBBBIqQ{MAX_RANK}q{MAX_RANK}q")


def tensor_struct(rank: int) -> struct.Struct:
    """Return TENSOR with the shape and strides of that rank, and zeros for the rest."""
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
"""Flags of a case: it is to be run twice; and a factor for the kind of fill, see `fuzz/core/base/fill.py`."""
AUDIT_LAST, AUDIT_EACH = 0, 1
"""After which cases of a frame the process is checked. A worker may check more often."""
KF_REJECTED = 1
UNKNOWN_BYTE = -(1 << 63)
GRACE_S = 2
"""Seconds by which the limit that a worker is told exceeds ours: its own timer is only for when we are gone, and may
have run for a second when a case begins."""

RAN, REJECTED, FAULT, NO_MEMORY, RAISED, WRONG_SHAPE, WRONG_DTYPE, MISREAD, NOT_BUILT, OURS = range(10)
MISUSED, REPORTED = 10, 11
"""How a call ended. RAISED, WRONG_SHAPE, WRONG_DTYPE, NOT_BUILT, OURS, MISUSED and REPORTED come from Python workers
only; they, and their REJECTED, have words. MISREAD is a fault of the emulator, OURS one of the worker, MISUSED one of
the kernel's declaration, and REPORTED an error that a tool saw which watches the worker."""

BROKEN_FRAME_EXIT = 70
"""The exit code of a worker that was sent something that is no frame of its op."""
