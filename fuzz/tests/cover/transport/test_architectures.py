"""Code for other architectures: its worker sees there what it sees elsewhere, and what only they have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fuzz.core.adapters.c import CAttestation
from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.case import Case
from fuzz.core.base.fill import FILLS, HUGE, filled
from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.execute.pool import WorkerPool
from fuzz.tests.common.planted import ANYTHING, HEAD, a_case

_FLOATS = ", ".join(f'"v{number}"' for number in range(32))
_Row = tuple[str, Status, list[str] | None]

_RISCV: list[_Row] = [
    ("copy(c);", Status.RAN, []),
    (
        'copy(c); __asm__ volatile("li s3, 5");', Status.RAN,
        ["calling convention: s3 is not as it was before the call"],
    ),
]  # fmt: skip
_POWER: list[_Row] = [
    ("copy(c);", Status.RAN, []),
    (
        'copy(c); __asm__ volatile("li 16, 5");', Status.RAN,
        ["calling convention: r16 is not as it was before the call"],
    ),
    (
        'copy(c); __asm__ volatile("fneg 31, 31");', Status.RAN,
        ["calling convention: f31 is not as it was before the call"],
    ),
    (
        'copy(c); __asm__ volatile("vspltisw 31, 1");', Status.RAN,
        ["calling convention: v31 is not as it was before the call"],
    ),
    (
        'copy(c); __asm__ volatile("mtfsfi 7, 1");', Status.RAN,
        ["floating-point environment: another rounding mode"],
    ),
]  # fmt: skip
_MODES = ".arch_extension sme\\n "
_SME: list[_Row] = [
    (
        f'copy(c); __asm__ volatile("{_MODES} smstart za");', Status.RAN,
        ["calling convention: the storage ZA (PSTATE.ZA) is not as it was before the call"],
    ),
    # It clears the registers that are the caller's too, of which only the mode is told.
    (
        f'copy(c); __asm__ volatile("{_MODES} smstart sm");', Status.RAN,
        ["calling convention: streaming mode (PSTATE.SM) is not as it was before the call"],
    ),
    (f'copy(c); __asm__ volatile("{_MODES} smstart" : : : {_FLOATS}); row(&c->y, rows)[0] = 1;', Status.FAULT, []),
    (f'copy(c); __asm__ volatile("{_MODES} smstart\\n smstop" : : : {_FLOATS});', Status.RAN, []),
    ('copy(c); __asm__ volatile("mov x23, 5");', Status.RAN,
     ["calling convention: x23 is not as it was before the call"]),
    ('copy(c); __asm__ volatile("fmov d15, 1.0");', Status.RAN,
     ["calling convention: d15 is not as it was before the call"]),
]  # fmt: skip
_ANYWHERE: list[_Row] = [
    (
        "copy(c); *(volatile char *)malloc(1); if (!malloc((size_t)16 << 30)) return KF_REJECTED;",
        Status.REJECTED, None,
    ),
    ("row(&c->y, rows)[0] = 1;", Status.FAULT, []),
]  # fmt: skip


_UNSET = {
    "ppc64le": '__asm__ volatile("std 7, %0\\n stfd 9, %1\\n stxsdx 47, 0, %3" : "=m"(a), "=m"(b), "=m"(e) : "b"(&e));',
    "riscv64": '__asm__ volatile("sd t5, %0\\n fsd ft9, %1\\n fsd fa3, %2" : "=m"(a), "=m"(b), "=m"(e));',
}
"""Statements that show registers of each kind which belong to whoever wants them."""


@pytest.mark.some(3)
@pytest.mark.parametrize(
    ("arch", "body", "status", "changes"),
    [
        (arch, *row)
        for arch, rows in (("aarch64", _SME), ("ppc64le", _POWER), ("riscv64", _RISCV))
        for row in (*rows, *_ANYWHERE)
    ],
)  # fmt: skip
def test_a_worker_sees_what_a_kernel_does(
    tmp_path: Path, cache: Path, arch: str, body: str, status: Status, changes: list[str] | None
) -> None:
    found = _outcome(tmp_path, cache, arch, body, a_case())
    assert found.status is status
    assert changes is None or [str(each) for each in found.changes] == changes


@pytest.mark.some(1)
@pytest.mark.parametrize(("arch", "shows"), _UNSET.items())
def test_registers_that_nobody_has_set_are_filled(tmp_path: Path, cache: Path, arch: str, shows: str) -> None:
    body = f"uint64_t a, b, e; {shows} copy(c); ((uint64_t *)c->y.data)[0] = a; "
    body += "((uint64_t *)c->y.data)[1] = b; ((uint64_t *)c->y.data)[2] = e;"
    found = _outcome(tmp_path, cache, arch, body, filled(a_case(), HUGE))
    assert np.frombuffer(found.outputs["y"], "<u2")[:12].tolist() == [FILLS["a huge number"]] * 12


def _outcome(folder: Path, cache: Path, arch: str, body: str, case: Case) -> Outcome:
    source = folder / "planted.c"
    source.write_text(f"{HEAD}{body}\n    return KF_OK;\n}}\n")
    kernel = CKernel("planted", "rms_norm", source, "runtime", capabilities=ANYTHING)
    [target] = [each for each in expand([kernel], this_host()) if each.id == f"c-planted@qemu:arch={arch},gcc-O2"]
    with WorkerPool([target], cache=cache) as pool:
        (found,) = pool.submit([case]).outcomes()
        attested = pool.statuses[target.id]
    assert isinstance(attested, CAttestation), attested
    assert attested.arch == arch
    return found[target.id]
