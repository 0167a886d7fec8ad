"""Kernels written inside a test, built and run on real targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from fuzz.case import Case, Layout, Output, Tensor, contiguous
from fuzz.execute.pool import WorkerPool
from fuzz.execute.target import Target
from fuzz.execute.toolchain import Host, this_host
from fuzz.kernel import Capabilities, CKernel
from fuzz.outcome import Outcome

Run = Callable[..., list[Outcome]]

ANYTHING = Capabilities(dtypes=("f16", "f32"), axis="any", strides="any", in_place=True)

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


def host() -> Host:
    return this_host()


def emulated_arch(on: Host) -> str:
    return "aarch64" if on.arch == "x86_64" else "x86_64"


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("built")


@pytest.fixture(params=["native", "qemu"])
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make_target(tmp_path: Path, place: str) -> Callable[[str], Target]:
    """A target for the body of `kf_rms_norm(c)`, native or emulated."""

    def make(body: str) -> Target:
        source = tmp_path / "planted.c"
        source.write_text(f"{HEAD}{body}\n    return KF_OK;\n}}\n")
        on = host()
        arch = on.arch if place == "native" else emulated_arch(on)
        target = Target(CKernel("planted", "rms_norm", source, capabilities=ANYTHING), on, arch, place == "qemu")  # type: ignore[arg-type]
        if target.unavailable():
            pytest.skip(str(target.unavailable()))
        return target

    return make


@pytest.fixture
def run(make_target: Callable[[str], Target], cache: Path) -> Run:
    """Outcomes of a kernel body on cases."""

    def go(body: str, *cases: Case, limit: float = 10.0, second_run: bool = False) -> list[Outcome]:
        target = make_target(body)
        with WorkerPool([target], limit=limit, second_run=second_run, cache=cache) as pool:
            return [outcomes[target.id] for outcomes in pool.collect(pool.submit(cases))]

    return go


def values(shape: Sequence[int]) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return (np.arange(np.prod(shape), dtype="<f4") + 1).reshape(shape)


def a_case(
    x: Layout | None = None, y: Layout | None = None, dtype: str = "f32", alias: str | None = None, bits: bytes | None = None
) -> Case:
    """Three rows of four elements, 1, 2, 3, ...; the layouts default to contiguous, ending at the guard."""
    x = x or contiguous((3, 4))
    y = y or (x if alias else contiguous(x.shape))
    data = values(x.shape).astype({"f32": "<f4", "f16": "<f2"}[dtype]).tobytes() if bits is None else bits
    params = {"axis": len(x.shape) - 1, "eps": 1e-5}
    return Case("rms_norm", params, {"x": Tensor(dtype, x, data)}, {"y": Output(dtype, y, alias)})
