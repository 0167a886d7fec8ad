"""A kernel of two files in C and one in C++, which calls an archive and a shared library."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np

from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.adapters.target import NotRun, Target
from fuzz.core.base.capability import Capabilities
from fuzz.core.execute.pool import WorkerPool
from fuzz.tests.common.planted import a_case

_FILES = {
    "parts.h": """#pragma once
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
float squares(const float *x, int64_t n);
float inverse_root(float x);
void scaled(const float *x, float *y, int64_t n, float by);
void one_row(const float *x, float *y, int64_t n, float eps);
#ifdef __cplusplus
}
#endif
""",
    "entry.c": """#include <parts.h>
#include "kernelfuzz.h"

int kf_rms_norm(const kf_rms_norm_call *call) {
    const int64_t n = call->x.shape[call->x.rank - 1];
    int64_t elements = 1;
    for (int axis = 0; axis < call->x.rank; axis++) elements *= call->x.shape[axis];
    for (int64_t at = 0; at < elements; at += n)
        one_row((const float *)call->x.data + at, (float *)call->y.data + at, n, call->eps);
    return KF_OK;
}
""",
    "row.c": """#include <parts.h>

void one_row(const float *x, float *y, int64_t n, float eps) {
    scaled(x, y, n, inverse_root(squares(x, n) / (float)n + eps));
}
""",
    "root.cpp": """#include <cmath>
#include <parts.h>

template <typename T> static constexpr bool is_float = __is_same(T, float);

float inverse_root(float x) {
    if constexpr (is_float<decltype(x)>) return 1.0f / std::sqrt(x);
    else return 0;
}
""",
    "squares.c": """#include "parts.h"

float squares(const float *x, int64_t n) {
    float total = 0.0f;
    for (int64_t i = 0; i < n; i++) total += x[i] * x[i];
    return total;
}
""",
    "scaled.c": """#include "parts.h"

void scaled(const float *x, float *y, int64_t n, float by) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * by;
}
""",
}
ARM = "aarch64-linux-gnu-"
"""How the programs of AArch64 begin."""
_FOUR = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
EXPECTED = (_FOUR / np.sqrt((_FOUR**2).mean(-1, keepdims=True) + np.float32(1e-5))).ravel()
WRONG = ("y[i] = x[i] * by", "y[i] = i % 4 == 3 ? x[i] : x[i] * by")
"""A bug of the library `scaled`."""


def write_sources(folder: Path) -> Path:
    """The folder with the sources of the kernel and, in `lib`, those of its libraries."""
    for name, text in _FILES.items():
        path = folder / ("lib" if name in ("squares.c", "scaled.c", "parts.h") else "") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def archive(folder: Path, name: str, prefix: str = "") -> Path:
    """The archive `libNAME.a` of that source; `prefix` is that of the programs for another architecture."""
    library = folder / "lib" / f"lib{name}.a"
    compiled = library.with_suffix(".o")
    library.unlink(missing_ok=True)
    _run([f"{prefix}gcc", "-O2", "-fPIC", "-c", str(folder / "lib" / f"{name}.c"), "-o", str(compiled)])
    _run([f"{prefix}ar", "rcs", str(library), str(compiled)])
    return library


def shared(folder: Path, name: str) -> Path:
    """The library `libNAME.so` of that source, under the name of its version, as libraries are installed."""
    real, link = folder / "lib" / f"lib{name}.so.1", folder / "lib" / f"lib{name}.so"
    real.unlink(missing_ok=True)
    link.unlink(missing_ok=True)
    source = str(folder / "lib" / f"{name}.c")
    _run(["gcc", "-O2", "-fPIC", "-shared", f"-Wl,-soname,{real.name}", source, "-o", str(real)])
    link.symlink_to(real.name)
    return link


def kernel(folder: Path, *libraries: Path | str, isa: str = "any", name: str = "linked") -> CKernel:
    """The kernel of these sources with these libraries."""
    return CKernel(
        name, "rms_norm", sources=tuple(folder / each for each in ("entry.c", "row.c", "root.cpp")), isa=isa,
        libraries=libraries, include=(folder / "lib",), standard="c++17", flags=("-ffp-contract=off",),
        capabilities=Capabilities(dtypes=("f32",), strides="contiguous", empty=False),
    )  # fmt: skip


def result_of(target: Target, cache: Path) -> list[float]:
    """What the kernel makes of `a_case()` there: EXPECTED, where it is right."""
    with WorkerPool([target], cache=cache) as pool:
        [outcomes] = pool.submit([a_case()]).outcomes()
    assert not isinstance(pool.statuses[target.id], NotRun), pool.statuses[target.id]
    return [float(each) for each in np.frombuffer(outcomes[target.id].outputs["y"], "<f4")]


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)
