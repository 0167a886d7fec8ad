"""What kernels are measured beside computes the same, and what is measured is what was asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from fuzz.adapters.pack import built_in, load
from fuzz.adapters.target import Target
from fuzz.quality.__main__ import app
from fuzz.quality.speed import EPS, MOVED, Shape, Timing, peers
from fuzz.quality.speed.native import ROWS, time_native
from fuzz.tests.conftest import Cli
from fuzz.uses.starting import select_targets


def test_the_bytes_that_must_move_are_counted_over_the_time() -> None:
    timing = Timing(Shape("fused_add_rms_norm", "bf16", 1000, 2000), "mine", 1e-3)
    assert timing.gigabytes_per_second == pytest.approx(4 * 1000 * 2000 * 2 / 1e-3 / 1e9)
    assert not Timing(timing.shape, "mine", float("nan")).ran


def test_native_kernels_are_measured_at_every_length() -> None:
    targets = select_targets(load(built_in()).kernels, "rms_norm", ["c-composed@native", "c-sve@native"], "gcc-O2")
    timings = list(time_native([t for t in targets if isinstance(t, Target) and not t.unavailable()], (256, 1024)))
    assert [timing.shape for timing in timings] == [Shape("rms_norm", "f32", ROWS, n) for n in (256, 1024)]
    assert all(timing.seconds > 0 for timing in timings)


@pytest.mark.parametrize("op", ["rms_norm", "fused_add_rms_norm"])
def test_torch_and_the_composition_agree(op: str) -> None:
    torch.manual_seed(3)
    given = {"x": torch.randn(5, 33), "residual": torch.randn(5, 33), "weight": torch.randn(33)}
    for mine, wanted in zip(peers.eager(op, torch)(given), peers.composed(op, torch)(given), strict=True):
        assert torch.allclose(mine, wanted, rtol=1e-5, atol=1e-6)


def test_the_gradients_of_the_composition_are_those_of_autograd() -> None:
    torch.manual_seed(3)
    x, weight = torch.randn(5, 33, requires_grad=True), torch.randn(33, requires_grad=True)
    dy, dsum = torch.randn(5, 33), torch.randn(5, 33)
    rstd = torch.rsqrt(x.square().mean(-1) + EPS)
    wanted = torch.autograd.grad(x * rstd[:, None] * weight, (x, weight), dy)
    given = {"x": x.detach(), "dy": dy, "dsum": dsum, "weight": weight.detach(), "rstd": rstd.detach()}
    dx, dw = peers.composed("fused_add_rms_norm_backward", torch)(given)
    assert torch.allclose(dx, wanted[0] + dsum, rtol=1e-4, atol=1e-5)
    assert torch.allclose(dw, wanted[1], rtol=1e-4, atol=1e-5)
    assert set(MOVED) == {"rms_norm", "fused_add_rms_norm", "rms_norm_backward", "fused_add_rms_norm_backward"}


def test_kernels_are_measured_beside_the_composition(cli_here: Cli, tmp_path: Path) -> None:
    words = ("kernels", "--target", "c-*@native", "-k", "composed or avx", "--n", "512", "--json", "speed.json")
    done = cli_here(*words, app=app)
    assert done.returncode == 0, done.stderr
    timings = json.loads((tmp_path / "speed.json").read_text())["native"]
    assert {timing["n"] for timing in timings} == {512}
    assert "c-composed@native:gcc-O2" in {timing["who"] for timing in timings}
    assert "composed/it" in done.stdout


def test_what_cannot_be_measured_is_said_in_one_line(cli_here: Cli) -> None:
    done = cli_here("kernels", "--target", "triton@interpret", app=app)
    assert done.returncode == 4
    assert "nothing to measure" in done.stderr
    done = cli_here("kernels", "--dtype", "f64", app=app)
    assert done.returncode == 4
    assert "--dtype f64" in done.stderr
