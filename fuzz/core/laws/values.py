"""Laws of values: the same case again, or on more threads; and changes of sign, which all roundings leave intact.
Rounding to nearest even is symmetric, and so are sums, products and quotients, with one exception: a sum that cancels
to zero is +0 whatever the signs of its terms are. An op's `flips` say which inputs may be negated and which outputs are
negated with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.case import THREADS, Case
from fuzz.core.base.dtypes import NUMPY_DTYPE, from_bits
from fuzz.core.base.fill import refilled
from fuzz.core.base.stream import Stream
from fuzz.core.laws.law import Law, Leeway, Outputs, has_elements
from oracles.algorithm import traced
from oracles.formula.node import EITHER, ordered
from oracles.op import Op
from oracles.operand import Flip
from oracles.ops import OPS, remembered


def sign_flipped(values: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return the values with every sign bit flipped, including those of zeros, infinities and NaNs."""
    words = values.view(f"<u{values.dtype.itemsize}")
    flipped: NDArray[np.generic] = words ^ words.dtype.type(1 << (8 * words.dtype.itemsize - 1))
    return flipped.view(values.dtype)


def _flips(case: Case) -> list[Flip]:
    return [flip for flip in OPS[case.op].flips if any(name in case.inputs for name in flip.inputs)]


def _flip(case: Case, stream: Stream) -> Flip:
    """Return one of the op's flips, as the stream chooses."""
    flips = _flips(case)
    return flips[int(stream.words(1)[0]) % len(flips)]


def _of_other_sign(case: Case, stream: Stream) -> Case:
    flipped = {
        name: replace(tensor, bits=sign_flipped(from_bits(tensor.bits, tensor.dtype, tensor.layout.shape)).tobytes())
        for name, tensor in case.inputs.items()
        if name in _flip(case, stream).inputs
    }
    return replace(case, inputs={**case.inputs, **flipped})


def _negated(case: Case, stream: Stream, outputs: Outputs) -> Outputs:
    return {
        name: sign_flipped(np.frombuffer(outputs[name], NUMPY_DTYPE[output.dtype])).tobytes()
        if name in _flip(case, stream).outputs
        else outputs[name]
        for name, output in case.outputs.items()
    }


def _of_sums(case: Case, stream: Stream, outputs: Outputs) -> Leeway:
    """Return the leeway: signs of zeros are free, unless the flip says that nothing is added before the output."""
    return Leeway(zeros=_flip(case, stream).zeros)


def _on_two_threads(case: Case, stream: Stream) -> Case:
    return replace(case, params={**case.params, THREADS: 2})


@remembered(64)
def _repeats(op: Op) -> bool:
    """Return whether the same bits must come again: of several elements for one place, any may stay."""
    whole = traced(op, [*op.params, *(each.name for each in op.operands)])
    places = [node for node in ordered(whole.outputs.values()) if node.kind == "place" and node.value == EITHER]
    tables = [{each.label for each in ordered([node.args[0]]) if each.kind == "tensor"} for node in places]
    return not any(names and all(op.operand(name).integers for name in names) for names in tables)


RERUN = Law(
    "rerun", "the same case a second time", lambda case: True, lambda case, stream: refilled(case), moves_one=False,
    suits=_repeats,
)  # fmt: skip
SIGN_FLIP = Law(
    "sign_flip",
    "inputs of the other sign, which negates what is odd in them",
    lambda case: bool(_flips(case)) and has_elements(case),
    _of_other_sign,
    _negated,
    _of_sums,
    suits=lambda op: bool(op.flips),
)
# If threads share the elements of a result, nothing changes. If they share the terms of a sum, its order changes, and
# with it the roundings.
THREADS_COUNT = Law(
    "threads",
    "two threads instead of one",
    lambda case: THREADS not in case.params and has_elements(case),
    _on_two_threads,
)
