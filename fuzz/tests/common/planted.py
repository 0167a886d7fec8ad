"""Kernels written inside a test, and small cases for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fuzz.core.adapters.build import Builder
from fuzz.core.adapters.c import CProgram
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import Target
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.capability import Capabilities
from fuzz.core.base.case import Case, Layout, Output, Tensor, contiguous
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.outcome import Outcome

Run = Callable[..., list[Outcome]]

ANYTHING = Capabilities(
    dtypes=("f16", "f32"),
    axis="any",
    strides="any",
    aliases=(("y", "x"),),
    overlap=(("y", "x"),),
    takes=("weight", "rstd"),
    stacked=("weight",),
)

HANGS = "for (;;) { extern int pause(void); pause(); }"
"""A statement in C that never ends, and takes no time of a processor meanwhile."""

HEAD = """
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include "kernelfuzz.h"

static float *row(const kf_tensor *t, int64_t i) { return (float *)t->data + i * t->strides[0]; }

static void copy(const kf_rms_norm_call *c) {
    for (int64_t i = 0; i < c->x.shape[0]; i++)
        for (int64_t j = 0; j < c->x.shape[1]; j++)
            row(&c->y, i)[j * c->y.strides[1]] = row(&c->x, i)[j * c->x.strides[1]];
}

int kf_rms_norm(const kf_rms_norm_call *c) {
    const int64_t rows = c->x.shape[0], n = c->x.shape[1];
    (void)rows; (void)n;
"""


def c_program(target: Target, builder: Builder) -> CProgram:
    """The worker of a C target."""
    program = target.adapter.program(target, builder)
    assert isinstance(program, CProgram)
    return program


def c_target(kernel: Kernel, place: str, opt: str = "O2", bits: int | None = None) -> Target:
    """The target of a kernel that gcc builds for a place, at a vector length."""
    wanted = place, "gcc", opt, None if bits is None else str(bits)
    named = ((target.name, target) for target in expand([kernel], this_host()))
    return next(t for at, t in named if (at.site, at.compiler, at.opt, dict(at.settings).get("vl")) == wanted)


def values(shape: Sequence[int]) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return (np.arange(np.prod(shape), dtype="<f4") + 1).reshape(shape)


def a_case(
    x: Layout | None = None,
    y: Layout | None = None,
    dtype: str = "f32",
    alias: str | None = None,
    bits: bytes | None = None,
) -> Case:
    """Three rows of four elements, 1, 2, 3, ...; the layouts default to contiguous, ending at the guard."""
    x = x or contiguous((3, 4))
    y = y or (x if alias else contiguous(x.shape))
    data = values(x.shape).astype({"f32": "<f4", "f16": "<f2"}[dtype]).tobytes() if bits is None else bits
    params = {"axis": len(x.shape) - 1, "eps": float(np.float32(1e-5))}
    return Case("rms_norm", params, {"x": Tensor(dtype, x, data)}, {"y": Output(dtype, y, alias)})
