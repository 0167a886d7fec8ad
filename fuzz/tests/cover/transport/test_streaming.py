"""Kernels of SME: their vectors have the length that is set, and their storage is kept for whoever it is of use to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fuzz.core.adapters.c import CAttestation
from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.adapters.isa import ISAS
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.execute.pool import WorkerPool
from fuzz.tests.common.planted import ANYTHING, HEAD, a_case

[_LENGTH] = ISAS["sme"].settings

_KERNEL = """#include <arm_sme.h>
__arm_locally_streaming static uint64_t lanes(void) { return svcntw(); }

__attribute__((noinline)) __arm_new("za") __arm_locally_streaming static void another(void) {
    svmopa_za32_f32_m(0, svptrue_b32(), svptrue_b32(), svdup_f32(9.0f), svdup_f32(9.0f));
}

/* The product of 2 and 3 in each place of ZA, all of which is another's meanwhile. */
__attribute__((noinline)) __arm_new("za") __arm_locally_streaming static float product(void) {
    float found[64];
    svzero_za();
    svmopa_za32_f32_m(0, svptrue_b32(), svptrue_b32(), svdup_f32(2.0f), svdup_f32(3.0f));
    another();
    svst1_hor_za32(0, (uint32_t)svcntw() - 1, svptrue_b32(), found);
    return found[svcntw() - 1];
}
"""
_BODY = "copy(c); row(&c->y, 0)[0] = (float)lanes(); row(&c->y, 0)[1] = product(); row(&c->y, 0)[2] = (float)lanes();"


@pytest.mark.whole
@pytest.mark.parametrize("bits", _LENGTH.options)
@pytest.mark.parametrize("opt", ["O2", "O0"])
def test_a_kernel_streams_at_the_length_that_is_set(tmp_path: Path, cache: Path, bits: int, opt: str) -> None:
    source = tmp_path / "planted.c"
    source.write_text(f"{_KERNEL}{HEAD}{_BODY}\n    return KF_OK;\n}}\n")
    kernel = CKernel("planted", "rms_norm", source, "sme", capabilities=ANYTHING)
    [target] = [each for each in expand([kernel], this_host()) if each.id.endswith(f"svl={bits},clang19-{opt}")]
    with WorkerPool([target], cache=cache) as pool:
        (found,) = pool.submit([a_case()]).outcomes()
        attested = pool.statuses[target.id]
    assert isinstance(attested, CAttestation), attested
    assert attested.settings["svl"] == bits
    assert f"sme, streaming vector length {bits}" in attested.words
    shown = np.frombuffer(found[target.id].outputs["y"], "<f4")[:3]
    assert shown.tolist() == [bits // 32, 6.0, bits // 32]
    assert not found[target.id].changes
