"""What kernels are measured beside computes the same, and what is measured is what was asked for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fuzz.adapters.pack import built_in, load
from fuzz.adapters.registry import expand
from fuzz.adapters.target import Target
from fuzz.adapters.toolchain import Host, this_host
from fuzz.quality.__main__ import app
from fuzz.quality.speed import EPS, MOVED, Shape, Timing, peers
from fuzz.quality.speed.native import call_on, limit_of, time_native, vector_bytes
from fuzz.tests.conftest import Cli
from fuzz.uses.starting import select_targets


def test_the_bytes_that_must_move_are_counted_over_the_time() -> None:
    timing = Timing(Shape("fused_add_rms_norm", "bf16", 1000, 2000), "mine", 1e-3)
    assert timing.gigabytes_per_second == pytest.approx(4 * 1000 * 2000 * 2 / 1e-3 / 1e9)
    assert not Timing(timing.shape, "mine", float("nan")).ran


def test_native_kernels_are_measured_hot_and_cold_beside_the_limit_of_their_vectors() -> None:
    targets = select_targets(load(built_in()).kernels, "rms_norm", ["c-composed@native", "c-avx2@native"], "gcc-O2")
    here = [t for t in targets if isinstance(t, Target) and not t.unavailable()]
    found = list(time_native(here, (256, 1000)))
    assert [(each.n, each.who) for each in found] == [(n, target.id) for n in (256, 1000) for target in here]
    for each in found:
        assert min(each.hot, each.limit, each.cold) > 0
        assert each.of_limit == pytest.approx(each.limit / each.hot, rel=0.9), "both are medians of the same rounds"


def test_the_limit_is_as_wide_as_the_instruction_set() -> None:
    (avx2, *_), (avx512, *_), (dispatch, *_), (generic, *_) = (
        expand([kernel], Host("x86_64", frozenset({"avx2", "fma", "f16c"})))
        for name in ("avx2", "avx512", "dispatch", "generic")
        for kernel in load(built_in()).kernels
        if kernel.name == name
    )
    assert [vector_bytes(target) for target in (avx2, avx512, dispatch, generic)] == [32, 64, 32, 16]


def test_the_limit_loads_and_stores_every_element_of_each_row(tmp_path: Path) -> None:
    (target, *_) = [t for t in expand(load(built_in()).kernels, this_host()) if t.id == "c-generic@native:gcc-O2"]
    for n in (1, 7, 64, 131):
        x, y = np.random.default_rng(n).standard_normal((3, n), np.float32), np.empty((3, n), np.float32)
        function = limit_of(target, tmp_path / f"{n}.so")
        assert function(call_on(x, y), 1, 1) >= 0
        assert np.array_equal(y, x * np.float32(EPS))


@pytest.mark.parametrize("op", ["rms_norm", "fused_add_rms_norm", "layer_norm", "softmax"])
def test_torch_and_the_composition_agree(op: str) -> None:
    import torch  # it takes seconds, and each of pytest's processes imports each module of tests

    torch.manual_seed(3)
    given = {"x": torch.randn(5, 33), "residual": torch.randn(5, 33)}
    given |= {name: torch.randn(33) for name in ("weight", "bias")}
    for mine, wanted in zip(peers.eager(op, torch)(given), peers.composed(op, torch)(given), strict=True):
        assert torch.allclose(mine, wanted, rtol=1e-5, atol=1e-6)


def test_the_gradients_of_the_composition_are_those_of_autograd() -> None:
    import torch

    torch.manual_seed(3)
    x, weight = torch.randn(5, 33, requires_grad=True), torch.randn(33, requires_grad=True)
    dy, dsum = torch.randn(5, 33), torch.randn(5, 33)
    rstd = torch.rsqrt(x.square().mean(-1) + EPS)
    wanted = torch.autograd.grad(x * rstd[:, None] * weight, (x, weight), dy)
    given = {"x": x.detach(), "dy": dy, "dsum": dsum, "weight": weight.detach(), "rstd": rstd.detach()}
    dx, dw = peers.composed("fused_add_rms_norm_backward", torch)(given)
    assert torch.allclose(dx, wanted[0] + dsum, rtol=1e-4, atol=1e-5)
    assert torch.allclose(dw, wanted[1], rtol=1e-4, atol=1e-5)
    norms = {"rms_norm", "fused_add_rms_norm", "rms_norm_backward", "fused_add_rms_norm_backward"}
    assert set(MOVED) == {*norms, "layer_norm", "softmax"}


def test_kernels_are_measured_beside_the_composition(cli_here: Cli, tmp_path: Path) -> None:
    words = ("kernels", "--target", "c-*@native", "-k", "composed or avx", "--n", "512", "--json", "speed.json")
    done = cli_here(*words, app=app)
    assert done.returncode == 0, done.stderr
    timings = json.loads((tmp_path / "speed.json").read_text())["native"]
    assert {timing["n"] for timing in timings} == {512}
    assert "c-composed@native:gcc-O2" in {timing["who"] for timing in timings}
    assert "of limit" in done.stdout
    assert "composed/it" in done.stdout
    assert all(timing["hot"] > 0 and timing["cold"] > 0 and timing["limit"] > 0 for timing in timings)


def test_the_table_of_kernels_is_printed_for_the_documents(cli_here: Cli) -> None:
    words = ("kernels", "--target", "c-*@native", "-k", "composed", "--n", "64", "--markdown")
    done = cli_here(*words, app=app)
    assert done.returncode == 0, done.stderr
    header, rule, row, *_ = done.stdout.splitlines()
    assert header.startswith("| target | n |")
    assert rule.startswith("| --- |")
    assert row.startswith("| c-composed@native:gcc-O2 | 64 |")


def test_what_cannot_be_measured_is_said_in_one_line(cli_here: Cli) -> None:
    done = cli_here("kernels", "--target", "triton@interpret", app=app)
    assert done.returncode == 4
    assert "nothing to measure" in done.stderr
    done = cli_here("kernels", "--dtype", "f64", app=app)
    assert done.returncode == 4
    assert "--dtype f64" in done.stderr
