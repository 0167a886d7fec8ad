"""Probes: other ways to make a call, which a correct kernel cannot tell from the usual one. A case with the param
`PROBE` is called by a probe; the param is not passed to the kernel. How the call is made depends on the case alone, so
that the judge knows it too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.case import Case, Tensor
from fuzz.core.base.dtypes import from_bits, numbers
from fuzz.core.base.fill import FILL
from oracles.dtypes import INTEGERS

PROBE: Final = "_probe"
"""The param that says by which probe a case is called. No parameter of an op can have this name."""
WAS: Final = "_was"
"""The param with the value that an element had before it was overwritten."""
OVERWRITE, FRESH, CALLER, STREAM, GHOST, PAUSE, PROCESS, AUTOGRAD, MODE = PROBES = (
    "overwrite", "fresh", "caller", "stream", "ghost", "pause", "process", "autograd", "mode",
)  # fmt: skip
WITH_GRADIENTS = ("inputs require gradients", "the last input requires gradients", "no_grad", "inference_mode")
"""What `AUTOGRAD` calls the kernel with: one of these for each case."""
CALLS = 12
"""The number of calls that a probe makes before the judged one, if it needs earlier calls. A known exploit computes
right answers in 11 calls, then cheats."""
MOST = len(PROBES) << 40
"""The largest value of the param, plus one."""


def probed(case: Case, probe: str, element: int = 0) -> Case:
    """Return the case called by a probe, with other values if the probe needs them. `element` is an index among all
    elements of the case's inputs. `OVERWRITE` changes the first non-zero element from there on, so that a kernel that
    ignores the change would be wrong. `FRESH` gives that element's tensor other values before the call."""
    params = {**case.params, PROBE: element * len(PROBES) + PROBES.index(probe)}
    called = replace(case, params=params)
    name, place = place_of(called)
    tensor = case.inputs[name]
    if probe == GHOST:
        return before(called)
    if probe != OVERWRITE:
        return called
    values = numbers(tensor.bits, tensor.dtype, (-1,)).astype(np.float64)
    place = (place + int(np.argmax(np.roll(values, -place) != 0))) % values.size
    element += place - place_of(called)[1]
    params[PROBE] = element * len(PROBES) + PROBES.index(probe)
    was = numbers(tensor.bits, tensor.dtype, (-1,))[place]
    number = int(was) if tensor.dtype in INTEGERS else float(was.astype(np.float64))
    only = np.arange(tensor.layout.size) == place
    return replace(case, params={**params, WAS: number}, inputs={**case.inputs, name: _altered(tensor, only)})


def unprobed(case: Case) -> Case:
    """Return the case called in the usual way, with the fill that its inputs decide."""
    return replace(case, params=without_probe(case.params))


def without_probe(params: Mapping[str, float | int]) -> Mapping[str, float | int]:
    """Return the params without those about probes and fills."""
    return {name: value for name, value in params.items() if name not in (PROBE, WAS, FILL)}


def probe_of(case: Case) -> str:
    """Return the probe by which the case is called, or '' for the usual way."""
    return PROBES[int(case.params[PROBE]) % len(PROBES)] if PROBE in case.params else ""


def gradients_of(case: Case) -> str:
    """Return what a case whose probe is `AUTOGRAD` is called with."""
    return WITH_GRADIENTS[int(case.params[PROBE]) // len(PROBES) % len(WITH_GRADIENTS)]


def place_of(case: Case) -> tuple[str, int]:
    """Return the input that the case's probe is about, and the index of the element in it."""
    element = int(case.params[PROBE]) // len(PROBES) % max(case.elements, 1)
    for name, tensor in case.inputs.items():
        if element < tensor.layout.size:
            return name, element
        element -= tensor.layout.size
    raise AssertionError("a probe of a case without elements")


def before(case: Case) -> Case:
    """Return the case with the values that its tensors have in earlier calls. With `OVERWRITE` one element differs,
    with `FRESH` all elements of one tensor, else all elements. A value without alternatives stays the same."""
    name, place = place_of(case)
    tensor = case.inputs[name]
    if probe_of(case) == FRESH:
        return replace(case, inputs={**case.inputs, name: _all_altered(tensor)})
    if probe_of(case) != OVERWRITE:
        return replace(case, inputs={each: _all_altered(one) for each, one in case.inputs.items()})
    values = from_bits(tensor.bits, tensor.dtype, (-1,)).copy()
    values[place] = case.params[WAS]
    return replace(case, inputs={**case.inputs, name: replace(tensor, bits=values.tobytes())})


def _all_altered(tensor: Tensor) -> Tensor:
    return _altered(tensor, np.ones(tensor.layout.size, bool))


def _altered(tensor: Tensor, where: NDArray[np.bool_]) -> Tensor:
    """Return the tensor with other values at some elements, so that the op still accepts them: half of a value, or 1 if
    the half is no other finite value. An integer becomes another one of the tensor, or 0."""
    values = from_bits(tensor.bits, tensor.dtype, (tensor.layout.size,))
    if tensor.dtype in INTEGERS:
        other = np.where(values == 0, values.max(initial=0), 0).astype(values.dtype)
    else:
        with np.errstate(all="ignore"):
            numbers = values.astype(np.float64)
            other = (numbers / 2).astype(values.dtype)
            is_stuck = (other == values) | ~np.isfinite(numbers)
        other = np.where(is_stuck, np.ones(1, values.dtype), other)
    return replace(tensor, bits=np.where(where, other, values).astype(values.dtype).tobytes())
