"""The comparisons of a suite, judged by how the expected value was calculated, in place of its tolerances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

from fuzz.tasks.bound import ReadTask
from fuzz.tasks.comparison import OPEN, RIGHT, WRONG, Comparisons, JudgedCall, SuiteComparison, effect, told
from fuzz.tasks.history import History, UnknownHistoryError

_SUITE = """
import torch
from torch.testing import assert_close


def softmax(x, factor=1.0):
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True) * factor


def test_right():
    x = torch.randn(16, 64)
    assert_close(softmax(x), torch.softmax(x, -1))


def test_an_error_that_the_tolerance_allows():
    x = torch.randn(16, 64)
    assert_close(softmax(x, 1.001), torch.softmax(x, -1), atol=1e-2, rtol=1e-2)


def compare(mine, right):
    assert torch.allclose(mine, right, rtol=0.0, atol=0.0)


def test_a_tolerance_that_nobody_meets():
    x, w = torch.randn(8, 512), torch.randn(512, 8)
    compare((x.double() @ w.double()).float(), x @ w)


def test_what_numpy_made():
    x = torch.ones(4)
    assert_close(x * 2, torch.from_numpy(x.numpy() * 2))
"""


def test_a_suite_is_judged_and_told(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_mine=_SUITE)
    done = pytester.runpytest_subprocess("--kernelfuzz-assert", "-p", "no:cacheprovider")
    done.assert_outcomes(passed=3, failed=1)
    printed = " ".join(done.stdout.str().split())
    assert "4 comparisons: 3 judged, 1 wrong" in printed
    assert "test_mine.py:17: wrong, and its tolerance passes it" in printed
    assert "test_mine.py:26: right, and its tolerance fails it" in printed
    assert "the expected value: torch did not make it" in printed


_OWN = """
import torch
from near import norm_near as near


def test_an_error_within_the_ratio():
    x = torch.randn(16, 64)
    near("exp", torch.exp(x), torch.exp(x.double()).float() * 1.001, ratio=0.01)


def test_right():
    x = torch.randn(16, 64)
    near("exp", torch.exp(x), torch.exp(x.double()).float(), ratio=0.0)
"""


def test_the_own_comparison_of_a_suite_is_judged(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        near="def norm_near(of, right, mine, ratio):\n    assert (right - mine).norm() < ratio * right.norm(), of",
        test_own=_OWN,
    )
    command = ("--kernelfuzz-assert", "-p", "no:cacheprovider", "--kernelfuzz-helper")
    done = pytester.runpytest_subprocess(*command, "near:norm_near")
    done.assert_outcomes(passed=1, failed=1)
    printed = " ".join(done.stdout.str().split())
    assert "test_own.py:7: wrong, and its tolerance passes it" in printed
    assert "test_own.py:12: right, and its tolerance fails it" in printed
    beside = pytester.runpytest_subprocess(*command, "near:far", "-n", "1")
    beside.assert_outcomes(errors=2)
    beside.stdout.fnmatch_lines(["*--kernelfuzz-helper near:far: no test imports*"])
    missing = pytester.runpytest_subprocess(*command, "near:far")
    assert missing.ret == pytest.ExitCode.USAGE_ERROR
    missing.stderr.fnmatch_lines(["*no test imports a function 'far' of 'near'*"])


def test_without_the_option_nothing_is_replaced(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_mine=_SUITE)
    done = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    done.assert_outcomes(passed=3, failed=1)
    assert "comparisons" not in done.stdout.str()


def _compared(make: Callable[[], tuple[torch.Tensor, torch.Tensor]]) -> SuiteComparison:
    comparisons = Comparisons()
    with comparisons.replacing(), comparisons.judging():
        torch.allclose(*make())
    [found] = comparisons.found
    return found


def _gelu(x: torch.Tensor, factor: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
    x = x.requires_grad_()
    torch.nn.functional.gelu(x).sum().backward()
    density = torch.exp(-x * x / 2) / (2 * torch.pi) ** 0.5
    assert x.grad is not None
    return (0.5 * (1 + torch.erf(x / 2**0.5)) + x * density * factor).detach(), x.grad


def _norm(dtype: torch.dtype, wrong: float = 0.0) -> tuple[torch.Tensor, torch.Tensor]:
    x, layer = (torch.randn(8, 48) * 3).to(dtype), torch.nn.LayerNorm(48).to(dtype)
    wide = x.float() - x.float().mean(-1, keepdim=True)
    mine = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + layer.eps) * (1 + wrong)
    return mine.to(dtype), layer(x)


def _quantised() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(8, 32)
    codes = (x / x.abs().amax() * 127).round().to(torch.int8)
    return codes.float() @ torch.ones(32, 4), codes.float() @ torch.ones(32, 4)


def _in_parts() -> tuple[torch.Tensor, torch.Tensor]:
    x, y = torch.randn(6, 10), torch.empty(6, 10)
    y[:3], y[3:] = torch.sigmoid(x[:3]), torch.sigmoid(x[3:])
    return 1 / (1 + torch.exp(-x)), y


def _sums() -> tuple[torch.Tensor, torch.Tensor]:
    sums = torch.from_numpy(torch.randn(4, 64).softmax(-1).numpy() * 1.001).sum(-1)
    return sums, torch.ones_like(sums)


def _moved() -> tuple[torch.Tensor, torch.Tensor]:
    """A layer whose parameter is given other memory, as one that moves to a GPU is."""
    layer, x, weight = torch.nn.Linear(32, 8, bias=False), torch.randn(4, 32), torch.randn(8, 32)
    layer.weight.data = weight
    return (x.double() @ weight.double().T).float(), layer(x).detach()


def _causal(wrong: float = 0.0) -> tuple[torch.Tensor, torch.Tensor]:
    """A convolution that is cut at a number, which is beyond any short row."""
    x, w = torch.randn(2, 8, 64), torch.randn(8, 1, 3)
    made = [
        torch.nn.functional.conv1d(a, b, padding=2, groups=8)[..., :64] for a, b in ((x, w), (x.double(), w.double()))
    ]
    return (made[1] * (1 + wrong)).float(), made[0]


def _of_complex(
    mine: Callable[..., Any], right: Callable[..., Any], wrong: float = 0.0, dtype: torch.dtype = torch.complex64
) -> tuple[torch.Tensor, torch.Tensor]:
    """What NumPy and torch make of numbers."""
    z, w = (torch.randn(4, 12, dtype=dtype) for _ in range(2))
    return torch.from_numpy((mine(z.numpy(), w.numpy()) * (1 + wrong)).astype(z.numpy().dtype)), right(z, w)


def _by_three(z: Any, w: Any) -> Any:
    a, b, c, d = z.real, z.imag, w.real, w.imag
    return a * c - b * d + 1j * ((a + b) * (c + d) - a * c - b * d)


@pytest.mark.some(6)
@pytest.mark.parametrize(
    ("make", "result"),
    [
        *((lambda wrong=wrong: _of_complex(lambda z, w: z * w.conj(), lambda z, w: z * w.conj(), wrong), result)
          for wrong, result in ((0.0, RIGHT), (1e-5, WRONG))),
        (lambda: _of_complex(_by_three, torch.mul), RIGHT),
        (lambda: _of_complex(np.multiply, torch.mul, dtype=torch.complex128), RIGHT),
        (lambda: _of_complex(np.multiply, torch.mul, 1e-12, torch.complex128), WRONG),
        (lambda: _of_complex(lambda z, w: np.fft.fft(z.real), lambda z, w: torch.fft.fft(z.real)), RIGHT),
        (lambda: _of_complex(lambda z, w: np.fft.fft(z.real), lambda z, w: torch.fft.fft(z.real), 1e-3), WRONG),
        (lambda: _of_complex(lambda z, w: np.tanh(z), lambda z, w: torch.tanh(z)), RIGHT),  # which is replayed
        (lambda: _of_complex(lambda z, w: np.tanh(z), lambda z, w: torch.tanh(z), 1e-4), WRONG),
    ],
)  # fmt: skip
def test_complex_numbers_are_judged(make: Callable[[], tuple[torch.Tensor, torch.Tensor]], result: str) -> None:
    torch.manual_seed(1)
    found = _compared(make)
    assert found.result == result, found


def test_a_tolerance_of_complex_numbers_is_that_of_both_parts() -> None:
    z, w = (torch.complex(*torch.randn(2, 64)) for _ in range(2))
    task = ReadTask.of(lambda z, w: z * w, {"z": z, "w": w}, {"algorithm": {"y_real": "formula", "y_imag": "formula"}})
    assert effect(task, 0.0, 2.0**-18)[0] == pytest.approx(2.0**6 / 1.2, rel=0.4)
    assert effect(task, 0.0, 2.0**-26)[1] == 1.0


@pytest.mark.some(6)
@pytest.mark.parametrize(
    ("make", "result"),
    [
        (lambda: _gelu(torch.randn(8, 32)), RIGHT),
        (lambda: _gelu(torch.randn(8, 32), 1.01), WRONG),
        (lambda: _norm(torch.bfloat16), RIGHT),  # the layer is given what was rounded, not what is rounded
        (lambda: _norm(torch.bfloat16, 0.02), WRONG),
        (lambda: _norm(torch.float32), RIGHT),
        (lambda: _norm(torch.float32, 1e-4), WRONG),
        (_quantised, RIGHT),
        (_in_parts, RIGHT),
        (_moved, RIGHT),
        (_causal, RIGHT),
        (lambda: _causal(1e-3), WRONG),
        (_sums, OPEN),  # that they are one says nothing of how they are added
        (lambda: (torch.ones(3), torch.ones(3)), OPEN),
        (lambda: (torch.ones(3, dtype=torch.int64), torch.ones(3, dtype=torch.int64) * 1), OPEN),
    ],
)
def test_the_expected_value_says_what_is_right(
    make: Callable[[], tuple[torch.Tensor, torch.Tensor]], result: str
) -> None:
    torch.manual_seed(1)
    found = _compared(make)
    assert found.result == result, found


def _eigh(a: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return tuple(torch.linalg.eigh(a))


@pytest.mark.parametrize(("factor", "result"), [(-1.0, RIGHT), (1.001, WRONG)])
def test_a_factorisation_is_judged_by_its_residual(factor: float, result: str) -> None:
    """A GPU returns eigenvectors with other signs than the processor."""
    a = torch.randn(6, 6, generator=torch.Generator().manual_seed(1))
    values, vectors = torch.linalg.eigh(a + a.T)
    operation = torch.ops.aten._linalg_eigh.default
    returned = values, vectors * factor
    assert JudgedCall.of(_eigh, {"a": a + a.T}, returned, [operation], "f32", steps_round=False).result == result


def test_what_is_no_matter_of_values_still_fails() -> None:
    """The judge finds each of these values right: bf16 rounds them well, and nothing is promised of NaN."""
    comparisons, x = Comparisons(), torch.linspace(0, 1, 32)
    with comparisons.replacing():
        with comparisons.judging(), pytest.raises(AssertionError, match="dtype"):
            torch.testing.assert_close(torch.exp(x).bfloat16(), torch.exp(x))
        with comparisons.judging():
            nan = torch.log(x - 2)
            assert not torch.allclose(nan, torch.log(x - 2))


def test_memory_that_something_else_writes_has_no_history() -> None:
    history = History()
    with history.recording():
        y = torch.empty(4) * 1
    y.numpy()[:] = 7.0
    with pytest.raises(UnknownHistoryError, match="something else writes to it"):
        history.provenance(y)


def test_lines_name_each_place_once() -> None:
    wide = SuiteComparison("a.py:1", True, "formula", RIGHT, "", 200.0, 0.0)
    tight = SuiteComparison("a.py:2", True, "formula", RIGHT, "", 0.5, 0.25)
    assert [*told([wide, wide, tight])] == [
        "3 comparisons: 3 judged, 0 wrong",
        "a.py:1: its tolerance is 200 times the largest error of a right kernel",
        "a.py:2: a right kernel may be off by more than its tolerance at 25% of the elements",
    ]


def test_a_tolerance_is_measured_by_the_dtype_of_the_output() -> None:
    w, x = torch.randn(4, 8), torch.randn(4, 8).bfloat16()
    task = ReadTask.of(lambda w, x: w * x.float(), (w, x))
    assert effect(task, 0.0, 2.0**-6, "bf16")[0] < 32  # of f32 it would be 2^17
    assert effect(task, 0.0, 2.0**-6)[0] > 2.0**12


def test_what_the_judge_calculates_goes_past_the_history() -> None:
    """Each operation of a reading went through it: a reading that is refused took half as long again."""
    with mock.patch.object(History, "_record", side_effect=AssertionError):
        history = History()
        with history.recording(), history.paused():
            assert float(torch.ones(2).sum()) == 2
        with history.recording(), pytest.raises(AssertionError):
            torch.ones(2)
