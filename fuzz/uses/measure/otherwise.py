"""Right as what: whether all runs of a kernel that is wrong are right with fewer bits than are expected of it."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from fuzz.base.case import Case
from fuzz.base.draw import Frame
from fuzz.base.dtypes import numbers, quantise
from fuzz.judge.fitting import Run
from oracles.dtypes import DOUBLE, SINGLE, form
from oracles.formula.contract import WIDE, Contract
from oracles.operand import OUTER
from oracles.ops import OPS
from oracles.summation import NumericsError

_USED, _USED_SINGLE, _TRIED = 1 / 32, 1 / 1024, 16
"""What is calculated with fewer bits makes use of so much of what they allow. Of f32 it is less, as no sum of f32 errs
by all that it may; what is off by a few ulp of f64 uses a millionth."""
_FEW, _MOST_WORK = 3, 1 << 20
"""The number of runs that are looked at, and what the terms of all may be where more are: some seconds."""
_TELLING, _SEVERAL = 0.1, 3
"""In so many wrong runs fewer bits allow at most this share of a value, or else to be right by them proves little: with
8 bits a long sum may be anything."""
_TF32, _BF16 = 13, 16
"""The bits of an f32 number that TF32 and bf16 leave out."""


def right_as(runs: Sequence[Run], contract: Contract) -> str:
    """Return such as "right as TF32; wrong as f32"; '' where nothing of that kind fits, or nothing is wrong."""
    judged = sorted((run for run in runs if run.query(contract) is not None), key=_work)
    # The largest cases cost as much as all others together: where these are right nothing is said.
    total = [*accumulate(map(_work, judged))]
    wrong = [run for run in judged[: max(_FEW, bisect_right(total, _MOST_WORK))] if _is_wrong(run, contract)]
    if not wrong:
        return ""
    computes = {run.settled(contract).compute for run in judged}
    for name, fits in _others(wrong[:_TRIED], contract, computes):
        if all(fits(run) for run in (*wrong, *judged)):
            return f"right as {name}; wrong as {_expected(contract, computes)}"
    return ""


def _expected(contract: Contract, computes: Collection[str]) -> str:
    if len(computes) == 1:
        return min(computes)
    return WIDE if contract.compute == WIDE else "its inputs' dtype"


def _others(
    runs: Sequence[Run], contract: Contract, computes: Collection[str]
) -> Iterator[tuple[str, Callable[[Run], bool]]]:
    if DOUBLE.name in computes and _is_used(
        runs, single := replace(contract, compute=SINGLE.name), contract, _USED_SINGLE
    ):
        yield SINGLE.name, lambda run: not _is_wrong(run, single)
    if {*computes} == {SINGLE.name}:
        for name, bits in (("TF32", _TF32), ("f32 with inputs rounded to bf16", _BF16)):
            for rounding in _ROUNDINGS.values():
                yield name, lambda run, bits=bits, rounding=rounding: _fits_rounded(run, contract, bits, rounding)  # type: ignore[misc]
    for dtype in ("f16", "bf16"):
        if {dtype} != {*computes} and form(dtype).precision < SINGLE.precision:
            other = replace(contract, compute=dtype)
            if _is_used(runs, other, contract) and sum(run.share(other) <= _TELLING for run in runs) >= _SEVERAL:
                yield dtype, lambda run, other=other: not _is_wrong(run, other)  # type: ignore[misc]


def _is_used(runs: Iterable[Run], other: Contract, contract: Contract, least: float = _USED) -> bool:
    """Whether errors are of the size that they have with fewer bits, of which nearly anything is right."""
    return any(run.used(other, contract) > least for run in runs)


def _work(run: Run) -> int:
    """The number of terms of the largest step."""
    frame = Frame(run.case)
    return OPS[run.case.op].work({OUTER: math.prod(frame.batch), **frame.sizes})


def _is_wrong(run: Run, contract: Contract) -> bool:
    return run.ratio(contract) is None


Rounding = Callable[
    ["np.ndarray[tuple[int, ...], np.dtype[np.uint32]]", int], "np.ndarray[tuple[int, ...], np.dtype[np.uint32]]"
]
_ROUNDINGS: Mapping[str, Rounding] = {
    "nearest even": lambda bits, lost: (
        bits + (np.uint32((1 << lost - 1) - 1) + (bits >> np.uint32(lost) & np.uint32(1)))
    ),
    "nearest away": lambda bits, lost: bits + np.uint32(1 << lost - 1),
    "towards zero": lambda bits, lost: bits,
}


def _fits_rounded(run: Run, contract: Contract, lost: int, rounding: Rounding) -> bool:
    """Whether its outputs are right for inputs of fewer bits."""
    other = Run(_rounded(run.case, lost, rounding), run.outcome, target=run.target)
    try:
        return not _is_wrong(other, contract)
    except NumericsError:
        return False


def _rounded(case: Case, lost: int, rounding: Rounding) -> Case:
    inputs = dict(case.inputs)
    for name, tensor in case.inputs.items():
        if tensor.dtype == SINGLE.name and name not in OPS[case.op].integers:
            values = numbers(tensor.bits, tensor.dtype, tensor.layout.shape)
            bits = rounding(values.view(np.uint32), lost) & np.uint32(0xFFFFFFFF << lost & 0xFFFFFFFF)
            kept = np.where(np.isfinite(values), bits.view(np.float32), values)
            inputs[name] = replace(tensor, bits=quantise(kept.astype(np.float64), tensor.dtype).tobytes())
    return replace(case, inputs=inputs)
