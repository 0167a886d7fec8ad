"""One function of a platform, measured against what is documented of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from fuzz.core.base.platform import Platform
from fuzz.tests.common.platforms.functions import F32, SQUARE_PLUS, SUM, Call
from oracles.dtypes import SINGLE
from oracles.elementary.functions import function
from oracles.formula.contract import DIVIDE, Besides, Contract
from oracles.formula.contract import besides as as_besides

_SAMPLED, _SEED = 1 << 19, 0
_ULP = 2 * SINGLE.u
_FMA = 2.0**-12
_NEARLY = 2.0**-10
"""What is calculated in f32 is off by so little of an ulp of f16 before it is rounded."""
_WORDS = 160
_PAIRS = {"add": (1.5 * 2.0**-130, 2.0**-130), "multiply": (2.0**-70, 2.0**-65), DIVIDE: (2.0**-128, 4.0)}
"""Operands of which the result of an operation is subnormal."""


@dataclass(frozen=True)
class Measurement:
    """What was measured, and whether it is as documented."""

    about: str
    documented: str
    measured: str
    kept: bool


def arguments() -> F32:
    """Return all numbers of f16, and as many f32 numbers of any magnitude, and of those that kernels have, as are
    drawn at random."""
    random = np.random.default_rng(_SEED)
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    any_bits = random.integers(0, 1 << 32, _SAMPLED, dtype=np.uint32).view(np.float32)
    usual = np.exp2(random.uniform(-24, 7, _SAMPLED)) * random.choice([-1.0, 1.0], _SAMPLED)
    found = np.concatenate([halves, any_bits, usual.astype(np.float32)])
    return np.asarray(found[np.isfinite(found)])


def measured(platform: Platform, calls: Mapping[str, Call]) -> Iterator[Measurement]:
    """Yield what each function of a platform does, and its operations."""
    x = arguments()
    y = np.random.default_rng(_SEED + 1).permutation(x)
    for label, call in calls.items():
        if label.partition(" ")[0] not in ("add", "multiply", SQUARE_PLUS):
            yield attempted(label, lambda label=label, call=call: of_function(platform, label, call, x, y))  # type: ignore[misc]
    yield attempted("subnormal results", lambda: _of_subnormal(platform, calls))
    yield attempted("products in sums", lambda: _of_products(calls[SQUARE_PLUS]))


def attempted(about: str, measure: Callable[[], Measurement]) -> Measurement:
    """Return what is measured, or what was raised in its place: the others are measured all the same."""
    try:
        return measure()
    except Exception as error:  # whatever a compiler or a device raises
        return Measurement(about, "", f"{type(error).__name__}: {' '.join(str(error).split())[:_WORDS]}", False)


def _of_subnormal(platform: Platform, calls: Mapping[str, Call]) -> Measurement:
    kept = {name: float(_at(calls[name], *pair)) != 0 for name, pair in _PAIRS.items()}
    lost = [name for name, whole in kept.items() if not whole]
    said = f"flushed by {' and '.join(lost)}" if lost else "kept"
    documented = "may be zero" if platform.flushes else "kept by +, * and /"
    return Measurement("subnormal results", documented, said, platform.flushes or not lost)


def _of_products(call: Call) -> Measurement:
    fused = float(_at(call, 1 + _FMA, -1 - 2 * _FMA)) != 0
    return Measurement("products in sums", "rounded or not", "not rounded" if fused else "rounded", True)


def in_halves(calls: Mapping[str, Call]) -> Iterator[Measurement]:
    """Yield whether what is calculated of 16 bits is calculated in more, and rounded at the end."""
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    x = x[np.isfinite(x)]
    for name, call in calls.items():
        if name == SUM:
            yield _of_halves(f"{name} of f16", _sums(call))
            continue
        with np.errstate(all="ignore"):
            exact = function(name).float64.value(x.astype(np.float64))
            got, rounded = call(x.astype(np.float32), x.astype(np.float32)), exact.astype(np.float16)
            near = np.abs(got - exact) <= np.abs(np.spacing(rounded)) * (0.5 + _NEARLY)
        yield _of_halves(f"{name} of f16", bool((near | (got == rounded)).all()))


def in_bf16(platform: Platform, calls: Mapping[str, Call]) -> Measurement:
    """Return what flushes subnormal numbers of bf16, which processors do that have instructions for it."""
    lost = [name for name, call in calls.items() if not float(_at(call, 1.5 * 2.0**-127, 1.0))]
    known = platform.flushing_bf16
    said = f"kept, or flushed by {' and '.join(sorted(known))}" if known else "kept"
    found = f"flushed by {' and '.join(lost)}" if lost else "kept"
    return Measurement("subnormals of bf16", said, found, known >= {*lost})


def _sums(call: Call) -> bool:
    """Whether ones count that are added to what is so large that f16 loses them."""
    values = np.ones(2049, np.float32)
    values[0] = 2048
    return float(call(values, values)[0]) == 4096


def _of_halves(about: str, whole: bool) -> Measurement:
    return Measurement(about, "in f32, rounded at the end", "in f32" if whole else "in 16 bits", whole)


def _at(call: Call, x: float, y: float) -> np.float32:
    found: np.float32 = call(np.full(64, x, np.float32), np.full(64, y, np.float32))[0]
    return found


def of_function(platform: Platform, label: str, call: Call, x: F32, y: F32) -> Measurement:
    """Return how far a function is from the exact values, in ulp of 2 u times each, where these are normal, beside what
    its bound grows with the argument; and what it makes of subnormal numbers."""
    about = label.partition(" ")[0]
    bound, besides = (
        platform.documented.get(about, Contract().bound(about)),
        as_besides(platform.absolute.get(about, 0.0)).ulp,
    )
    with np.errstate(all="ignore"):
        got, at_zero = call(x, y).astype(np.float64), call(np.zeros_like(x), y).astype(np.float64)
        x64, y64 = x.astype(np.float64), y.astype(np.float64)
        exact = x64 / y64 if about == DIVIDE else function(about).float64.value(x64)
        size, off = np.abs(exact), np.where(got == exact, 0.0, np.abs(got - exact))
        beyond = np.maximum(off - besides * _ULP, 0.0)
        growth = np.exp(np.minimum(_ULP * bound.growth * np.abs(x64), 700.0))
        judged = (size * (1 + _ULP * bound.ulp) * growth < SINGLE.max) & (size > 0)
        subnormal = (np.abs(x64) < SINGLE.tiny) | ((np.abs(y64) < SINGLE.tiny) if about == DIVIDE else False)
        normal = judged & (size >= SINGLE.tiny) & ~subnormal
        plain = np.where(normal, off / size / _ULP, 0.0)
        spare = np.where(normal, ((1 + beyond / size) / growth - 1) / _ULP, 0.0)
        far = beyond > (size + SINGLE.tiny) * ((1 + _ULP * bound.ulp) * growth - 1) + bound.ulp * SINGLE.eta
        odd = judged & ~normal & far
        lost = {"operands": odd & subnormal & (got == at_zero), "results": odd & ~subnormal & (got == 0)}
    wrong = odd & ~lost["operands"] & ~lost["results"]
    flushed = " and ".join(what for what, where in lost.items() if where.any())
    worst, largest = int(np.nan_to_num(spare, nan=np.inf).argmax()), int(np.nan_to_num(plain, nan=np.inf).argmax())
    grows = f" + {bound.growth:g} |x|" if bound.growth else ""
    words = [f"{spare[worst]:.3g}{grows} ulp: {plain[largest]:.3g} at {x[largest]:.6g}"]
    words += [f"subnormal {flushed} flushed"] if flushed else []
    words += (
        [f"wrong at {int(wrong.sum())} subnormal numbers, such as {x[int(wrong.argmax())]:.6g}"] if wrong.any() else []
    )
    kept = bool(spare[worst] <= bound.ulp) and (bound.flushes or platform.flushes or not flushed) and not wrong.any()
    said = f"{bound}, {Besides(besides)}" if besides else str(bound)
    return Measurement(label, said, ", ".join(words), kept)
