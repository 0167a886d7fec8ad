"""Kernels that do nothing, one for each instruction set and framework: with them `kernelfuzz doctor` shows which
targets can run, even without a pack."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.adapters.isa import ISAS
from fuzz.core.adapters.python_kernel import FRAMEWORKS, PythonKernel
from fuzz.core.base.kernel import Kernel

_HERE = Path(__file__).parent


def idle_kernels() -> Iterator[Kernel]:
    """Yield the kernels. Their code is portable, but a worker needs the instructions that the target lets the compiler
    use."""
    yield from (CKernel(isa, "rms_norm", _HERE / "idle.c", isa) for isa in ISAS)
    yield from (
        PythonKernel("idle", "rms_norm", _HERE / "idle.py", name)
        for name, row in FRAMEWORKS.items()
        if not row.is_foreign
    )
