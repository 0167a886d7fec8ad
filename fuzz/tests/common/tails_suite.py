"""A user's suite whose kernel is wrong in one of 64 tails, and how its failure is shown."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

Suite = Callable[..., pytest.RunResult]

TAILS = """
import fuzz, numpy

def norm(x, eps):
    wide = x.astype("f8")
    y = wide / numpy.sqrt((wide * wide).mean(-1, keepdims=True) + eps)
    return (y * 1.5 if x.shape[-1] % 64 == 63 else y).astype(x.dtype)

def test_function():
    exact = fuzz.Contract(compute="f64", sums={"n": fuzz.AnyOrder()})
    fuzz.check(norm, op="rms_norm", arrays="numpy", contract=exact, max_cases=400, seed=3)
"""


def explain_tails(suite: Suite, pytester: pytest.Pytester, *processes: str, here: bool = False) -> None:
    """Fails unless a suite on so many processes, or in this one, shows the law of a failure without traceback."""
    pytester.makepyfile(test_tails=TAILS)
    shown = suite(*processes, "-v", "-W", "error", "--kernelfuzz-explain-time", "600s", here=here)
    shown.assert_outcomes(failed=1)
    text = shown.stdout.str()
    assert re.search(r"fails when +n mod 64 = 63\b.*\([\d,]+ cases agree and none is against it; ", text), text
    assert re.search(r"x +T\(\[1, 63\], f32, ", text)
    assert re.search(r"shrunk +\S.* \(was [0-9a-f]{12}\)", text)
    assert re.search(r"cause +the kernel's source: norm fails on numpy-norm@cpu, its only target here", text)
    assert "not finished" not in text
    assert "fuzz/tasks/check" not in text, "frames of ours are shown"
    assert "fuzz/explain" not in text
