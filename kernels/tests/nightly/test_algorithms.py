"""A kernel that takes another algorithm is judged by that one: what breaks it is found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fuzz.campaign.search.runner import Runner
from fuzz.campaign.search.stopping import SessionLimits
from fuzz.core.adapters.pack import load
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import NotRun
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.execute.pool import WorkerPool
from fuzz.findings.book import book_in

PACK = load(Path(__file__).resolve().parents[2])
MOST = 640
"""423 cases find the rarest, the scale of a share that is subnormal."""
PLANTED = {
    "rms-norm-backward-rstd3-over-n": ("1.0 / n * rstd * rstd * rstd", "1.0 / n * rstd * rstd"),
    "rms-norm-backward-sum-times-rstd3": ("* rstd / n * x,", "* rstd / (n + 1) * x,"),
    "rms-norm-backward-rstd2-over-n": ("(1.0 / n * rstd * rstd * added(g * x) * x)", "(rstd * added(g * x) * x)"),
    "rms-norm-backward-rstd-first": ("averaged(rstd * g * x)", "averaged(g * x)"),
    "rms-norm-backward-apart": ("- h * (rstd * averaged(h * g))", "- h * averaged(h * g)"),
    "rms-norm-backward-times-n": ("(g * n - h * added(h * g))", "(g * n - h * averaged(h * g))"),
    "fused-add-rms-norm-backward-apart": ("dx += dsum", "dx += dx"),
    "layer-norm-moments": ("averaged(x * x) - centre * centre", "averaged(x * x) - centre"),
    "group-norm-moments": ("averaged(groups * groups) - centre", "averaged(groups * groups) + centre"),
    "group-norm-welford": ("squares / np.float32", "0.9 * squares / np.float32"),
    "group-norm-backward-apart": ("- h * averaged(g * h)", "+ h * averaged(g * h)"),
    "gelu-half-first": ("0.5**0.5", "0.7"),
    "gelu-tanh-half-first": ("CUBIC * (x * x * x)", "CUBIC * (x * x)"),
    "gelu-tanh-half-last": ("x * twice * 0.5", "x * twice * 0.501"),
    "gelu-tanh-backward-factors": ("(1.0 - t) * (1.0 + t)", "(1.0 - t) * (1.0 - t)"),
    "silu-mul-backward-slope-first": ("h * (1.0 - s) + s", "h * (1.0 - s) - s"),
    "silu-mul-backward-slope-last": ("dy * (up * slope)", "dy * (up + slope)"),
    "softmax-backward-products": ("products - y * added", "products + y * added"),
    "logsumexp-online": ("np.log(mass) + most)[", "np.log(mass) - most)["),
    "logsumexp-finite": ("+ shift", "- shift"),
    "cross-entropy-weighted": ("(logarithm - shifted) /", "(logarithm + shifted) /"),
    "logsumexp-backward-online": ("sums = np.log(mass) + most", "sums = np.log(mass) - most"),
    "logsumexp-backward-finite": ("+ shift", "- shift"),
    "row-mean-backward-reciprocal": ("1.0 / np.float32(x.shape[-1])", "1.0 / np.float32(x.shape[-1] + 1)"),
    "row-var-backward-welford": ("(x.shape[-1] - correction)", "(x.shape[-1])"),
    "cross-entropy-shifted": ("averaged(shifted)", "averaged(x)"),
    "cross-entropy-finite": ("_finite(x) - _of_label(x", "_finite(x) + _of_label(x"),
    "cross-entropy-backward-finite": ("e / added(e) - (", "e / added(e) + ("),
    "topk-softmax-reciprocal": ("np.exp(x - most) * (1.0 / mass)", "np.exp(x - most)"),
    "softmax-of-topk-reciprocal": ("e * (1.0 / added(e))", "e * (1.0 + added(e))"),
    "scaled-matmul-column-first": ("scaled + bias", "scaled - bias"),
    "attention-query-first": ("(q * softmax_scale)", "(q * softmax_scale**2)"),
    "quantize-rows-reciprocal": ("-128.0, 127.0)", "-128.0, 126.0)"),
    "quantize-rows-inverse": ("F32(top) / most", "F32(top + 1) / most"),
    "quantize-rows-e4m3-reciprocal": ("1.0 / step if", "0.99 / step if"),
    "quantize-rows-e4m3-inverse": ("F32(top) / most", "F32(top + 1) / most"),
    "quantize-mxfp8-reciprocal": ("0x400000, 0)", "0, 0)"),
    "quantize-mxfp8-e5m2-reciprocal": ("127 - stored", "126 - stored"),
    "quantize-nvfp4-reciprocal": ("(0.75, 1.75, 3.5)", "(0.75, 1.75, 3.6)"),
}
"""What is planted, by the kernel."""


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_is_found(name: str, tmp_path: Path) -> None:
    kernel = replace(PACK.kernel(name), edits=(PLANTED[name],), slow=False)
    targets = list(expand([kernel], this_host()))
    with WorkerPool(targets) as pool:
        assert not isinstance(pool.statuses[targets[0].id], NotRun), pool.statuses
        book = book_in(tmp_path, 7)
        runner = Runner(pool, targets, SessionLimits(max_cases=MOST), book)
        runner.enough = lambda tally: bool(book.buckets)
        runner.run(kernel.op, 7)
    assert book.buckets
