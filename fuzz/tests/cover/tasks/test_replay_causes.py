"""Causes of failures that a replay finds: what is told of wrong kernels whose bug is known, and what is not told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch

import fuzz
from fuzz.references.replay.oracle import ReplayFailure, matching
from fuzz.references.rerun import Replayed
from fuzz.report.words import PHRASES

Kernel = Callable[..., Any]


def told(kernel: Kernel, reference: Kernel, shapes: str, dtypes: Mapping[str, str] | None = None, **more: Any) -> str:
    """Return the cause that a check names, without the words of its verdict; '' for none."""
    with pytest.raises(fuzz.CheckFailed) as failed:
        fuzz.check(kernel, reference=reference, shapes=shapes, dtypes=dtypes, oracle="replay", **{"seed": 0, **more})
    [failure, *_] = failed.value.failures
    assert isinstance(failure, ReplayFailure)
    assert failure.record["cause"] == (failure.cause.says if failure.cause is not None else "")
    return "" if failure.cause is None else failure.cause.says.removeprefix(PHRASES[failure.verdict]).lstrip(", ")


def _pivotless(a: Any, b: Any) -> Any:
    a, x = a.copy(), b.copy()
    with np.errstate(all="ignore"):
        for j in range(len(a)):
            f = a[j + 1 :, j] / a[j, j]
            a[j + 1 :] -= np.outer(f, a[j])
            x[j + 1 :] -= np.outer(f, x[j])
        for i in reversed(range(len(a))):
            x[i] = (x[i] - a[i, i + 1 :] @ x[i + 1 :]) / a[i, i]
    return x


def _by_comparing(x: Any) -> Any:
    best, at = x[..., 0].clone(), torch.zeros(x.shape[:-1], dtype=torch.int64)
    for i in range(1, x.shape[-1]):
        at = torch.where(x[..., i] > best, i, at)
        best = torch.where(x[..., i] > best, x[..., i], best)
    return at


def _turned_vectors(a: Any) -> Any:
    values, vectors = np.linalg.eigh(a)
    return values, np.ascontiguousarray(vectors.T)


def _without_tail(a: Any, b: Any) -> Any:
    wide = a.astype(np.int32)
    wide[:, : a.shape[1] // 4 * 4] -= 3
    return wide @ b.astype(np.int32)


def _short_root(a: Any) -> Any:
    found = torch.linalg.cholesky(a)
    if len(a) > 8:
        found[8:, 0] *= 1.5
    return found


_BYTES = {"a": "int8", "b": "int8"}
_CAUSES: Mapping[str, tuple[Kernel, Kernel, str, Mapping[str, str], Mapping[str, Any], str]] = {
    "another operation": (
        torch.fmod, lambda a, b: torch.remainder(a, b), "a=n, b=n", _BYTES, {},
        "as if the remainder had the sign of the dividend"),
    "one of two operations": (
        lambda a, b: (a | b) + b, lambda a, b: (a ^ b) + b, "a=n, b=n", _BYTES, {},
        "as if bitwise_xor were bitwise_or"),
    "shift": (
        lambda a: (a.view(np.uint16) >> np.uint16(3)).view(np.int16), lambda a: a >> 3, "a=n", {"a": "int16"}, {},
        "as if the right shift moved zeros in place of the sign"),
    "the other side": (
        lambda edges, x: np.searchsorted(edges, x, side="right"), lambda edges, x: torch.searchsorted(edges, x),
        "edges=k, x=n", {}, {}, "as if equal elements went to the other side of searchsorted"),
    "NaN": (
        _by_comparing, lambda x: torch.argmax(x, -1), "x=b n", {}, {"values": "any", "max_cases": 60},
        "as if NaN were never larger, nor smaller"),
    "an input": (
        lambda a, b: torch.linalg.solve(a, b.T), lambda a, b: torch.linalg.solve(a, b), "a=n n, b=n n", {}, {},
        "as if b were transposed"),
    "ignored": (
        lambda a, b: a >> 1, lambda a, b: a >> (b & 3), "a=n, b=n", _BYTES, {}, "ignores b"),
    "factors": (
        _turned_vectors, lambda a: torch.linalg.eigh(a), "a=n n", {}, {}, "returns y1 transposed"),
    "elements": (
        lambda a: torch.round(a.double() / 16).int(), lambda a: (a.int() + 8) >> 4, "a=n", {"a": "int16"}, {},
        "wherever a mod 32 = 8"),
    "places": (
        lambda x: torch.cat([torch.cummax(part, -1).values for part in x.split(16, -1)], -1),
        lambda x: torch.cummax(x, -1).values, "x=b n", {}, {},
        "only where the index along axis 1 >= 16"),
    "pivots": (
        _pivotless, lambda a, b: torch.linalg.solve(a, b), "a=n n, b=n k", {}, {},
        "only where a needs an exchange of rows"),
    "pivots, and NaN for any right side": (
        _pivotless, lambda a, b: torch.linalg.solve(a, b), "a=n n, b=n k", {}, {"seed": 1},
        "only where a needs an exchange of rows"),
    "a tail": (
        _without_tail, lambda a, b: ((a.int() - 3)[:, :, None] * b.int()[None]).sum(1, dtype=torch.int32),
        "a=m k, b=k n", _BYTES, {}, "when k mod 4 != 0"),
    "rare values": (
        lambda x: np.sort(x, -1)[..., (x.shape[-1] - 1) // 2], lambda x: torch.nanmedian(x, -1).values, "x=b n", {},
        {"values": "any", "max_cases": 60}, "only where x has a NaN"),
    "an extent": (_short_root, lambda a: torch.linalg.cholesky(a), "a=n n", {}, {}, "when n >= 9"),
}  # fmt: skip


@pytest.mark.some(4)
@pytest.mark.parametrize("name", _CAUSES)
def test_the_cause_is_told(name: str) -> None:
    kernel, reference, shapes, dtypes, more, cause = _CAUSES[name]
    assert told(kernel, reference, shapes, dtypes, **more) == cause


def test_what_no_experiment_shows_is_not_told() -> None:
    """An error of single products that depend on both inputs is described by no condition on one of them."""
    found = told(
        lambda a, b: a.int() * b.int() + ((a.int() * 7 + b.int() * 5) % 11 == 3).int(),
        lambda a, b: a.int() * b.int(), "a=n, b=n", _BYTES)  # fmt: skip
    assert found == ""


def test_a_failure_that_does_not_come_again_is_said_to_be_such() -> None:
    calls = iter(range(10_000))
    found = told(lambda a: a + (next(calls) == 5), lambda a: a + 0, "a=n", {"a": "int8"})
    assert found == "but not when it is called again"


def test_a_value_is_another_references_only_if_it_is_near_it() -> None:
    """Between two references, a value belongs to neither, and where they agree, it must be right."""
    right = Replayed(np.array([1.0, 1.0, 1.0, 1.0]), np.full(4, 1e-6))
    other, got = np.array([2.0, 2.0, 1.0, 1.0]), np.array([2.001, 1.5, 1.0, 1.1])
    is_that, differs = matching(right, got, other, "f32")
    assert is_that.tolist() == [True, False, True, False]
    assert differs.tolist() == [True, True, False, False]


def test_integers_of_another_reference_are_equal_to_it() -> None:
    right = Replayed(np.array([1.0, 1.0, 3.0]), np.zeros(3), whole=True, exact=np.array([1, 1, 3]))
    is_that, differs = matching(right, np.array([2, 3, 3]), np.array([2, 2, 3]), "f32")
    assert is_that.tolist() == [True, False, True]
    assert differs.tolist() == [True, True, False]
