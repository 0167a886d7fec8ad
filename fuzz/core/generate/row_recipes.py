"""Recipes for rows that are exponentiated: logits that are hard for a softmax, and outputs of a softmax. Exponentials
come from `oracles.elementary` and sums are made in order, so that a seed gives the same bits on every machine."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.stream import Reals, Stream
from fuzz.core.generate.recipes import Fill, Recipe, RowSpec, normal, positions, random_signs, recipe, repeated
from oracles.dtypes import SINGLE
from oracles.elementary.functions import exp, log

LOGITS: dict[str, Recipe] = {}
"""The recipes for logits by name. Menus add the recipes for any rows."""
PROBABILITIES: dict[str, Recipe] = {}
"""The recipes for outputs of a softmax, by name."""
LOG_PROBABILITIES: dict[str, Recipe] = {}
"""The recipes for outputs of a log-softmax, by the same names."""


def _chosen(spec: RowSpec, stream: Stream, label: str, levels: tuple[float, ...]) -> Reals:
    """Return one of the levels for each row, shape (rows, 1)."""
    return np.asarray(levels)[stream.child(label).integers(spec.rows, 0, len(levels) - 1)][:, None]


def _rows(values: Reals, spec: RowSpec) -> Reals:
    return values.reshape(spec.rows, spec.n)


def _at_one(spec: RowSpec, stream: Stream) -> NDArray[np.bool_]:
    """Return a mask, shape (rows, n), that is True for one element per row: first, last, in the tail, or anywhere."""
    found: NDArray[np.bool_] = np.arange(spec.n) == positions(spec, stream)[:, None]
    return found


@recipe("one logit 10 to 110 above the others: first, last, in the tail, or anywhere", structured=True, registry=LOGITS)
def _dominant(spec: RowSpec, stream: Stream) -> Reals:
    heights = _chosen(spec, stream, "height", (10.0, 17.0, 25.0, 40.0, 80.0, 90.0, 110.0))
    return _rows(normal(spec, stream), spec) + heights * _at_one(spec, stream)


@recipe("the last one to eight logits 20 to 110 above the others", structured=True, registry=LOGITS)
def _heavy_tail(spec: RowSpec, stream: Stream) -> Reals:
    count = stream.child("count").integers(spec.rows, 1, 8)[:, None]
    heights = _chosen(spec, stream, "height", (20.0, 60.0, 90.0, 110.0))
    return _rows(normal(spec, stream), spec) + heights * (np.arange(spec.n) >= spec.n - count)


@recipe("logits of a few whole numbers: the greatest comes several times", structured=True, registry=LOGITS)
def _tied(spec: RowSpec, stream: Stream) -> Reals:
    return stream.child("whole").integers(spec.size, -1, 1).astype(np.float64) * 2.0


_RUNS = (1.0, 63.0, 64.0, 65.0, 1024.0)
_SHARES = (0.25, 0.5, 0.9, 1.0)


@recipe("a run of minus infinity: short, long, all but one, or all of a row", structured=True, registry=LOGITS)
def _masked_run(spec: RowSpec, stream: Stream) -> Reals:
    lengths = (*_RUNS, *(math.ceil(share * spec.n) for share in _SHARES), spec.n - 1.0)
    length = np.minimum(_chosen(spec, stream, "length", lengths), spec.n)
    start = np.floor(_chosen(spec, stream, "place", (0.0, 0.5, 1.0)) * (spec.n - length))
    column = np.arange(spec.n)
    masked = (column >= start) & (column < start + length)
    return np.where(masked, -math.inf, _rows(normal(spec, stream), spec))


@recipe("minus infinity at random: few, half, all but few, or all of a row", structured=True, registry=LOGITS)
def _masked(spec: RowSpec, stream: Stream) -> Reals:
    share = _chosen(spec, stream, "share", (0.1, 0.5, 0.9, 1.0))
    masked = _rows(stream.child("masked").uniform(spec.size), spec) < share
    return np.where(masked, -math.inf, _rows(normal(spec, stream), spec))


@recipe("one finite logit in each row, the others minus infinity", structured=True, registry=LOGITS)
def _one_finite(spec: RowSpec, stream: Stream) -> Reals:
    return np.where(_at_one(spec, stream), _rows(normal(spec, stream), spec), -math.inf)


@recipe("a common offset of 1e2 to 1e7 of either sign, and a spread of 1", structured=True, registry=LOGITS)
def _offset(spec: RowSpec, stream: Stream) -> Reals:
    scale = spec.scale(1e2)
    offsets = scale * _chosen(spec, stream, "offset", (1e2, 1e4, -1e4, 1e6, -1e6, 1e7))
    return _rows(normal(spec, stream), spec) * spec.spread(1.0, scale * 1e2) + offsets


@recipe("all logits low: about -1.2e4, -6e4, -1e9, or the lowest numbers", structured=True, registry=LOGITS)
def _low(spec: RowSpec, stream: Stream) -> Reals:
    levels = spec.scale(6e4) * _chosen(spec, stream, "level", (1.2e4, 6e4, 1e9, 3e38))
    wobble = _rows(stream.child("wobble").uniform(spec.size), spec) * max(2.0**-12, 4.0 * spec.form.u)
    return -levels * (1.0 + wobble)


@recipe("most logits 80 to 110 below the greatest: some underflow", structured=False, registry=LOGITS)
def _underflowing(spec: RowSpec, stream: Stream) -> Reals:
    below = 80.0 + 30.0 * _rows(stream.child("below").uniform(spec.size), spec)
    return np.where(_at_one(spec, stream), 0.0, -below * spec.scale(110.0))


@recipe("the largest numbers of either sign, whose differences overflow", structured=True, registry=LOGITS)
def _overflowing(spec: RowSpec, stream: Stream) -> Reals:
    sizes = spec.form.max * (1.0 - stream.child("level").uniform(spec.size) / 2.0)
    return _rows(sizes * random_signs(spec, stream), spec)


@recipe("a maximum that grows from 64 to 64 logits, by 2**-10, 2**-4, 1, 8 or 50", structured=True, registry=LOGITS)
def _rising(spec: RowSpec, stream: Stream) -> Reals:
    step = _chosen(spec, stream, "step", (2.0**-10, 2.0**-4, 1.0, 8.0, 50.0))
    return _rows(normal(spec, stream), spec) * 2.0**-10 + step * np.floor(np.arange(spec.n) / 64.0)


@recipe("a spread of 30: a few logits have nearly all of the mass", structured=False, registry=LOGITS)
def _peaked(spec: RowSpec, stream: Stream) -> Reals:
    return _rows(normal(spec, stream), spec) * 30.0


def _flat(spec: RowSpec, stream: Stream) -> Reals:
    return np.zeros((spec.rows, spec.n))


def _logarithms(logits: Reals) -> Reals:
    """Return the log-softmax of each row. Rows that are all minus infinity stay so."""
    with np.errstate(all="ignore"):
        greatest = np.max(logits, axis=1, keepdims=True, initial=-math.inf)
        shifted = logits - np.where(np.isfinite(greatest), greatest, 0.0)
        masses = np.add.accumulate(exp.float64(shifted), axis=1)[:, -1:]
        found: Reals = shifted - np.where(masses > 0, log.float64(np.where(masses > 0, masses, 1.0)), 0.0)
    return found


def _returned(name: str, summary: str, logits: Fill, *, structured: bool, emin: int = 0) -> None:
    """Register recipes for the outputs of a softmax and of a log-softmax of inputs that the recipe `logits` makes. The
    smallest probability is 2^emin. In formats with larger smallest normal numbers, logits are proportionally closer."""

    def logarithms(spec: RowSpec, stream: Stream) -> Reals:
        nearer = min(1.0, spec.form.emin / emin) if emin else 1.0
        return _logarithms(_rows(logits(spec, stream), spec) * nearer)

    def probabilities(spec: RowSpec, stream: Stream) -> Reals:
        return exp.float64(logarithms(spec, stream))

    PROBABILITIES[name] = Recipe(name, summary, structured, probabilities)
    LOG_PROBABILITIES[name] = Recipe(name, summary, structured, logarithms)


def _of(name: str) -> Callable[[RowSpec, Stream], Reals]:
    return LOGITS[name].fill


_returned("spread", "the softmax of normal logits", normal, structured=False)
_returned("certain", "one probability next to 1", _of("dominant"), structured=True, emin=-14)
_returned("equal", "all probabilities of a row the same", _flat, structured=True)
_returned("impossible", "zeros in a run, or everywhere", _of("masked_run"), structured=True)
_returned("few", "a few probabilities with nearly all of the mass", _of("peaked"), structured=False)
_returned(
    "vanishing", "probabilities that underflow by degrees", _of("underflowing"), structured=False, emin=SINGLE.emin
)


@recipe("a mean of 2**2 to 2**20 times the spread, at scales of 2**-10 to 2**10", structured=True)
def _shifted(spec: RowSpec, stream: Stream) -> Reals:
    sign = 1.0 - 2.0 * stream.child("sign").integers(spec.rows, 0, 1).astype(np.float64)
    mean = np.ldexp(sign, stream.child("ratio").integers(spec.rows, 2, 20))
    scale = np.ldexp(1.0, stream.child("scale").integers(spec.rows, -10, 10))
    return (normal(spec, stream) + repeated(mean, spec)) * repeated(scale, spec)
