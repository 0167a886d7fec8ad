"""f16 conversion: every f16 value, and every f32 value near the border between two of them, on every way to convert."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.capability import Capabilities
from fuzz.core.base.case import Case, Output, Tensor, contiguous
from fuzz.core.execute.pool import WorkerPool
from oracles.tests.common.whole import some

HALF = Path(__file__).resolve().parents[2] / "common"
SOURCE = """
#include "half.h"
#include "kernelfuzz.h"
int kf_rms_norm(const kf_rms_norm_call *c) {
    if (c->x.dtype == KF_F16) widen(c->x.data, c->y.data, c->x.shape[0]);
    else narrow(c->x.data, c->y.data, c->x.shape[0]);
    return KF_OK;
}
"""
ALL_HALVES = np.arange(1 << 16, dtype="<u2").view("<f2")


def _near_borders() -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Each f16 value, the middle to its neighbour, and the f32 values next to that, up to the overflow border."""
    finite = np.sort(ALL_HALVES[np.isfinite(ALL_HALVES)].astype("<f4"))
    middles = np.append((finite[:-1] + finite[1:]) / 2, [np.float32(65520), np.float32(-65520)])
    around = [np.nextafter(middles, np.float32(sign * np.inf)) for sign in (-1, 1)]
    special = [np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-30, 3.4e38, 0.0, -0.0]
    return np.concatenate([finite, middles, *around, np.array(special, "<f4")]).astype("<f4")


@pytest.mark.some(1)
@pytest.mark.parametrize("isa", ["runtime", "avx2"])
def test_conversions(isa: str, tmp_path: Path) -> None:
    source = tmp_path / "half_test.c"
    source.write_text(SOURCE)
    able = Capabilities(dtypes=("f16", "f32"), mixed=(("y", ("f16", "f32")),))
    kernel = CKernel("half", "rms_norm", source, isa, capabilities=able, flags=(f"-I{HALF}",))
    narrow_in = _near_borders()
    cases = [_case("f16", ALL_HALVES, "f32"), _case("f32", narrow_in, "f16")]
    with np.errstate(over="ignore"):
        wanted = [ALL_HALVES.astype("<f4"), narrow_in.astype("<f2")]
    with WorkerPool(some(expand([kernel], this_host()), 2)) as pool:
        for want, outcomes in zip(wanted, pool.submit(cases).outcomes(), strict=True):
            assert outcomes
            for target, outcome in outcomes.items():
                got = np.frombuffer(outcome.outputs["y"], want.dtype)
                np.testing.assert_array_equal(np.isnan(got), np.isnan(want), err_msg=target)
                numbers = ~np.isnan(want)
                bits = f"<u{want.itemsize}"
                np.testing.assert_array_equal(got[numbers].view(bits), want[numbers].view(bits), err_msg=target)


def _case(dtype: str, values: np.ndarray[tuple[int, ...], np.dtype[np.floating]], to: str) -> Case:
    layout = contiguous(values.shape)
    x, y = Tensor(dtype, layout, values.tobytes()), Output(to, layout)
    return Case("rms_norm", {"axis": 0, "eps": 0.0}, {"x": x}, {"y": y})
