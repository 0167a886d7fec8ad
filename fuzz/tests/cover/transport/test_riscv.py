"""Portable code runs on RISC-V too: its worker sees there what it sees elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.adapters.c_attestation import CAttestation
from fuzz.adapters.c_kernel import CKernel
from fuzz.adapters.registry import expand
from fuzz.adapters.toolchain import this_host
from fuzz.base.outcome import Status
from fuzz.execute.pool import WorkerPool
from fuzz.tests.common.planted import ANYTHING, HEAD, a_case


@pytest.mark.parametrize(
    ("body", "status", "changes"),
    [
        ("copy(c);", Status.RAN, []),
        pytest.param(
            'copy(c); __asm__ volatile("li s3, 5");', Status.RAN,
            ["calling convention: s3 is not as it was before the call"], marks=pytest.mark.whole,
        ),
        pytest.param(
            "copy(c); *(volatile char *)malloc(1); if (!malloc((size_t)16 << 30)) return KF_REJECTED;",
            Status.REJECTED, None, marks=pytest.mark.whole,
        ),
        pytest.param("row(&c->y, rows)[0] = 1;", Status.FAULT, [], marks=pytest.mark.whole),
    ],
)  # fmt: skip
def test_a_worker_sees_what_a_kernel_does(
    tmp_path: Path, cache: Path, body: str, status: Status, changes: list[str] | None
) -> None:
    source = tmp_path / "planted.c"
    source.write_text(f"{HEAD}{body}\n    return KF_OK;\n}}\n")
    kernel = CKernel("planted", "rms_norm", source, "runtime", capabilities=ANYTHING)
    [target] = [each for each in expand([kernel], this_host()) if each.id == "c-planted@qemu:arch=riscv64,gcc-O2"]
    with WorkerPool([target], cache=cache) as pool:
        (found,) = pool.submit([a_case()]).outcomes()
        attested = pool.statuses[target.id]
    assert isinstance(attested, CAttestation), attested
    assert attested.arch == "riscv64"
    assert found[target.id].status is status
    assert changes is None or [str(each) for each in found[target.id].changes] == changes
