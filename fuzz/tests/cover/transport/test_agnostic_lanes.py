"""RISC-V's vectors: lanes that an instruction leaves to the processor are tried under each policy, and a kernel that
relies on one is wrong under the other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fuzz.core.adapters.c import CAttestation
from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.adapters.isa import ISAS, Value
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import NotRun, Target
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.case import contiguous
from fuzz.core.base.kernel import PLAIN
from fuzz.core.execute.pool import WorkerPool
from fuzz.tests.common.planted import ANYTHING, a_case

COPY = """
#include "kernelfuzz.h"
#include <stddef.h>

/* Copies as many elements as a vector has, or fewer. */
static size_t copy(const float *x, float *y, size_t n) {
    size_t now;
#ifdef __riscv_v_intrinsic
    __asm__ volatile(
        "    vsetvli %0, %1, e32, m1, ta, ma\\n    vle32.v v8, (%2)\\n"
        "    vsetivli t0, 1, e32, m1, POLICIES\\n    vadd.vi v8, v8, 0\\n" /* behind the end */
        "    vsetvli t0, %1, e32, m1, POLICIES\\n    vmv.v.i v0, 1\\n    vadd.vi v8, v8, 0, v0.t\\n" /* one lane */
        "    vse32.v v8, (%3)\\n" : "=&r"(now) : "r"(n), "r"(x), "r"(y) : "t0", "memory");
#else
    for (now = 0; now < n; now++) y[now] = x[now];
#endif
    return now;
}

int kf_rms_norm(const kf_rms_norm_call *c) {
    const size_t n = (size_t)(c->x.shape[0] * c->x.shape[1]);
    for (size_t i = 0; i < n;) i += copy((const float *)c->x.data + i, (float *)c->y.data + i, n - i);
    return KF_OK;
}
"""


def targets_of(
    folder: Path, policies: str, bits: Value = 128, isa: str = "rvv", flags: tuple[str, ...] = ()
) -> list[Target]:
    """The targets of that width, built with -O2."""
    path = folder / "copy.c"
    path.write_text(COPY.replace("POLICIES", policies))
    made = expand([CKernel("copy", "rms_norm", path, isa, PLAIN, ANYTHING, flags)], this_host())
    found = [each for each in made if each.name.opt == "O2" and ("vector length", bits) in each.traits]
    assert all(each.unavailable() is None for each in found), "tests need every compiler: kernelfuzz doctor --install"
    return found


BITS = [pytest.param(each, marks=[] if each == 256 else pytest.mark.whole) for each in ISAS["rvv"].settings[0].options]


@pytest.mark.some(1)
@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize(
    ("policies", "wrong_where"),
    [pytest.param("tu, mu", "", marks=pytest.mark.whole), ("ta, mu", "tail=ones"), ("tu, ma", "masked=ones")],
)
def test_who_relies_on_a_policy_is_wrong_under_the_other(
    tmp_path: Path, cache: Path, policies: str, wrong_where: str, bits: int
) -> None:
    targets, case = targets_of(tmp_path, policies, bits), a_case(contiguous((3, 9)))
    with WorkerPool(targets, cache=cache) as pool:
        (found,) = pool.submit([case]).outcomes()
        statuses = dict(pool.statuses)
    assert len(targets) == 4
    for target in targets:
        wrong = found[target.id].outputs["y"] != case.inputs["x"].bits
        assert wrong == (wrong_where in target.name.set_there), target.id
        attested = statuses[target.id]
        assert isinstance(attested, CAttestation)
        assert {"rvv"} == attested.needs
        assert [f"{word}={value}" for word, value in attested.settings.items()] == [*target.name.set_there]


@pytest.mark.whole
def test_halves_need_a_processor_that_has_them(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = targets_of(tmp_path, "tu, mu", isa="rvv-fp16")[0]
    with WorkerPool([target], cache=cache) as pool:
        attested = pool.statuses[target.id]
    assert isinstance(attested, CAttestation)
    assert attested.needs == {"rvv", "zfh", "zvfh"}
    monkeypatch.setitem(ISAS, "rvv-fp16", replace(ISAS["rvv-fp16"], processor=ISAS["rvv"].processor))
    with WorkerPool([target], cache=cache) as pool:
        status = pool.statuses[target.id]
    assert isinstance(status, NotRun)
    assert "zfh was requested, the worker has rvv zvfh" in status.reason


def test_what_the_compiler_made_scalar_is_not_run(tmp_path: Path, cache: Path) -> None:
    """Flags of its own take away what its instruction set gives."""
    target = targets_of(tmp_path, "tu, mu", flags=("-march=rv64gc",))[0]
    with WorkerPool([target], cache=cache) as pool:
        status = pool.statuses[target.id]
    assert isinstance(status, NotRun)
    assert not status.broken
    assert "could not use rvv with -O2 -march=rv64gcv -march=rv64gc: this is the code without it" in status.reason
