"""Laws of values: the same case again, and changes of the values that pass through every rounding unchanged."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fuzz.case import Case, Tensor
from fuzz.generate.formats import LARGEST, NUMPY_DTYPE, SMALLEST_NORMAL, from_bits
from fuzz.generate.stream import Stream
from fuzz.laws.law import Law, Outputs

_ODD_OPS = frozenset({"rms_norm"})
"""ops whose output is an odd function of x, and does not change when x and the root of eps are scaled together."""
_WIDEST_SCALING = 24
"""largest power of two that x is scaled by."""
_LEAST, _MOST = -126, 126
"""exponents within which float32 neither underflows nor overflows, with a binade to spare at the top."""


def _scaled(values: NDArray[np.generic], k: int) -> NDArray[np.generic]:
    """Times 2^k, exact where `_powers` allows that k."""
    with np.errstate(invalid="ignore"):  # a signalling NaN may become a quiet one
        return np.ldexp(values.astype(np.float64), k).astype(values.dtype)


def _powers(case: Case) -> range:
    """Every k for which x * 2^k with eps * 4^k stays in the range where nothing is rounded differently.

    Squares, their sums, their mean and eps must stay normal in float32, on the case's own side too: a square that
    underflows loses bits that its scaled twin keeps. x itself must stay normal in its own dtype, since a kernel may
    flush subnormals. The bounds are on exponents, and cautious: a law that is applied where it does not hold accuses
    correct kernels. A kernel with a narrower accumulator must not declare the law.
    """
    x = case.inputs["x"]
    low, high = _eps_powers(float(case.params["eps"]))
    with np.errstate(invalid="ignore"):
        magnitudes = np.abs(from_bits(x.bits, x.dtype, x.layout.shape).astype(np.float64))
    magnitudes = magnitudes[np.isfinite(magnitudes) & (magnitudes > 0)]
    if magnitudes.size:
        # 2^least <= |x| < 2^most, and n <= 2^steps
        least, most = _exponent(magnitudes.min()), _exponent(magnitudes.max()) + 1
        steps = x.layout.shape[int(case.params["axis"])].bit_length()
        low = max(low, _exponent(SMALLEST_NORMAL[x.dtype]) - least, math.ceil((_LEAST + steps) / 2) - least)
        high = min(high, _exponent(LARGEST[x.dtype]) - most, (_MOST - steps) // 2 - most)
    elif case.params["eps"] == 0.0:
        return range(0)  # nothing to scale: the twin would be the case itself
    return range(low, high + 1) if low <= 0 <= high else range(0)


def _eps_powers(eps: float) -> tuple[int, int]:
    if eps == 0.0:
        return -_WIDEST_SCALING, _WIDEST_SCALING
    exponent = _exponent(eps)
    low, high = math.ceil((_LEAST - exponent) / 2), (_MOST - exponent - 1) // 2
    return max(low, -_WIDEST_SCALING), min(high, _WIDEST_SCALING)


def _exponent(value: float) -> int:
    """e with 2^e <= value < 2^(e + 1)."""
    return math.frexp(value)[1] - 1


def _can_scale(case: Case) -> bool:
    return _is_odd(case) and any(k != 0 for k in _powers(case))


def _is_odd(case: Case) -> bool:
    return (
        case.op in _ODD_OPS
        and "rstd" not in case.outputs
        and all(tensor.layout.size > 0 for tensor in case.inputs.values())
    )


def _with_x(case: Case, change: Callable[[NDArray[np.generic]], NDArray[np.generic]]) -> Case:
    x = case.inputs["x"]
    changed = change(from_bits(x.bits, x.dtype, x.layout.shape))
    return replace(case, inputs={**case.inputs, "x": Tensor(x.dtype, x.layout, changed.tobytes())})


def _at_another_scale(case: Case, stream: Stream) -> Case:
    powers = [k for k in _powers(case) if k != 0]
    k = powers[int(stream.words(1)[0]) % len(powers)]
    scaled = _with_x(case, lambda values: _scaled(values, k))
    return replace(scaled, params={**case.params, "eps": math.ldexp(float(case.params["eps"]), 2 * k)})


def _sign_flipped(values: NDArray[np.generic]) -> NDArray[np.generic]:
    """Every sign bit flipped: of zeros, infinities and NaNs as well."""
    words = values.view(f"<u{values.dtype.itemsize}")
    flipped: NDArray[np.generic] = words ^ words.dtype.type(1 << (8 * words.dtype.itemsize - 1))
    return flipped.view(values.dtype)


def _of_other_sign(case: Case, stream: Stream) -> Case:
    return _with_x(case, _sign_flipped)


def _negated(case: Case, stream: Stream, outputs: Outputs) -> Outputs:
    return {
        name: _sign_flipped(np.frombuffer(outputs[name], NUMPY_DTYPE[output.dtype])).tobytes()
        for name, output in case.outputs.items()
    }


RERUN = Law("rerun", "the same case a second time", lambda case: True, lambda case, stream: case)
SCALING = Law(
    "scaling", "x times 2^k with eps times 4^k, where nothing over- or underflows", _can_scale, _at_another_scale
)
SIGN_FLIP = Law("sign_flip", "x of the other sign, which negates the output", _is_odd, _of_other_sign, _negated)
