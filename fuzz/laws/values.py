"""Laws of values: the same case again, or on more threads; changes of sign, which pass every rounding unchanged.

Rounding to nearest even is symmetric, and so is every step of these ops, but for one thing: a sum that cancels to zero
is +0 whatever the signs of its terms. With x (and residual) of the other sign,

    forward:   the sum of both is negated, its squares and so rstd are not, y = sum rstd weight is negated;
    backward:  h = x rstd is negated, m = dy weight is not, so mean(h m) is negated, h mean(h m) is not:
               dx = rstd (m - h mean(h m)) is the same, dw = sum of dy h is negated;

and with dy (and dsum) of the other sign m, mean(h m), dx and dw are all negated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fuzz.base.case import THREADS, Case
from fuzz.base.dtypes import NUMPY_DTYPE, from_bits
from fuzz.base.stream import Stream
from fuzz.laws.law import STRICT, Law, Leeway, Outputs, has_elements

_FORWARD = (frozenset({"x", "residual"}), frozenset({"y", "sum"}))
_BY_X = (frozenset({"x"}), frozenset({"dw"}))
_BY_DY = (frozenset({"dy", "dsum"}), frozenset({"dx", "dresidual", "dw"}))
_FLIPS: Mapping[str, tuple[tuple[frozenset[str], frozenset[str]], ...]] = {
    "rms_norm": (_FORWARD,),
    "fused_add_rms_norm": (_FORWARD,),
    "rms_norm_backward": (_BY_X, _BY_DY),
    "fused_add_rms_norm_backward": (_BY_X, _BY_DY),
}
"""What may be flipped in an op, one of which is drawn: the inputs that get the other sign, and the outputs that this
negates."""


def sign_flipped(values: NDArray[np.generic]) -> NDArray[np.generic]:
    """Every sign bit flipped: of zeros, infinities and NaNs as well."""
    words = values.view(f"<u{values.dtype.itemsize}")
    flipped: NDArray[np.generic] = words ^ words.dtype.type(1 << (8 * words.dtype.itemsize - 1))
    return flipped.view(values.dtype)


def _flip(case: Case, stream: Stream) -> tuple[frozenset[str], frozenset[str]]:
    flips = _FLIPS[case.op]
    return flips[int(stream.words(1)[0]) % len(flips)]


def _of_other_sign(case: Case, stream: Stream) -> Case:
    inputs, _ = _flip(case, stream)
    flipped = {
        name: replace(tensor, bits=sign_flipped(from_bits(tensor.bits, tensor.dtype, tensor.layout.shape)).tobytes())
        for name, tensor in case.inputs.items()
        if name in inputs
    }
    return replace(case, inputs={**case.inputs, **flipped})


def _negated(case: Case, stream: Stream, outputs: Outputs) -> Outputs:
    _, negated = _flip(case, stream)
    return {
        name: sign_flipped(np.frombuffer(outputs[name], NUMPY_DTYPE[output.dtype])).tobytes()
        if name in negated
        else outputs[name]
        for name, output in case.outputs.items()
    }


def _of_sums(case: Case, stream: Stream, outputs: Outputs) -> Leeway:
    """Where nothing is added before the sign shows, zeros have signs too."""
    return STRICT if case.op == "rms_norm" else Leeway(zeros=True)


def _on_two_threads(case: Case, stream: Stream) -> Case:
    return replace(case, params={**case.params, THREADS: 2})


RERUN = Law("rerun", "the same case a second time", lambda case: True, lambda case, stream: case)
SIGN_FLIP = Law(
    "sign_flip",
    "x, or dy, of the other sign, which negates what is odd in it",
    lambda case: case.op in _FLIPS and has_elements(case),
    _of_other_sign,
    _negated,
    _of_sums,
)
# Where threads share the elements of a result, nothing changes. Where they share the terms of a sum, its order does,
# and with it the roundings.
THREADS_COUNT = Law(
    "threads",
    "two threads instead of one",
    lambda case: THREADS not in case.params and has_elements(case),
    _on_two_threads,
)
