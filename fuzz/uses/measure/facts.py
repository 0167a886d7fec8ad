"""What else inputs by design show of a kernel: its accumulators, products, subnormal numbers and functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fuzz.uses.measure.bench import Bench
from fuzz.uses.measure.sums import Carrier
from oracles.doubledouble import F64
from oracles.dtypes import COMPUTED, FORMATS, SINGLE, form
from oracles.formula.trace import REDUCTIONS

_WIDEST = 60
_SUBNORMAL = 2.0**-140
_BINADES, _IN_BINADE = range(-24, 8), 128
_FMA = 2.0**-12
_TELLING = 64.0
_FEW = 14


def accumulator(carrier: Carrier) -> int | None:
    """Return how many bits are kept of a sum while it is formed; None where more than float64 has, or nothing shows.

    2^p and all else 1, and -2^p last, or the other way round: a sum of so many bits has lost something of it.
    """
    large, small = carrier.sizes
    powers = [p for p in range(4, _WIDEST) if 2.0**p * small <= large]
    signed, rows = [sign * 2.0**power * small for power in powers for sign in (1.0, -1.0)], []
    for start in range(0, len(signed), carrier.rows):
        values = np.full((carrier.rows, carrier.n), small)
        for row, value in enumerate(signed[start : start + carrier.rows]):
            values[row, 0], values[row, -1] = value, -value
        rows.append(values)
    counted = np.concatenate(carrier.totals(rows))[: len(signed)]
    lost = next((at for at, count in enumerate(counted) if count != carrier.n - 2), 0)
    return powers[lost // 2] if lost > 1 and np.isfinite(counted[lost]) else None


def product_bits(carrier: Carrier) -> int | None:
    """Return how many bits of an element go into its term; None where it is about as many as f32 has: other roundings
    hide some."""
    dtype = form(carrier.bench.like.inputs[carrier.name].dtype)
    output = max((each.dtype for each in carrier.bench.like.outputs.values()), key=lambda each: form(each).precision)
    if dtype is not SINGLE or form(output).precision < SINGLE.precision or carrier.sizes[1] != 1.0:
        return None
    powers = range(1, dtype.precision)
    rows = []
    for start in range(0, len(powers), carrier.rows):
        values = np.zeros((carrier.rows, carrier.n))
        for row, power in enumerate(powers[start : start + carrier.rows]):
            values[row, 0] = 1.0 + 2.0**-power
        rows.append(values)
    low = np.concatenate([each for each, _ in carrier.bounds(rows)])[: len(powers)]
    kept = [power for power, count in zip(powers, low, strict=True) if abs(count - 1.0 - 2.0**-power) < 2.0**-power / 4]
    return kept[-1] + 1 if kept and kept[-1] < _FEW else None


def is_fused(carrier: Carrier) -> bool | None:
    """Return whether products go into a sum without being rounded; None where nothing shows."""
    bench, half = carrier.bench, carrier.n // 2
    others = [name for name in bench.floats if name != carrier.name and name not in carrier.zeros]
    axes = [bench.trace.tensors[name] for name in others]
    if carrier.node.kind != "dot" or len(others) != 1 or {*carrier.node.over} - {*axes[0]} or half < 2:
        return None
    if any(form(each.dtype) is not SINGLE for each in bench.like.tensors.values()):
        return None
    [name] = others
    places = Carrier(bench, carrier.node, name, 1.0).places
    factors = np.empty(places.size)
    factors[places.reshape(-1)] = np.tile(np.where(np.arange(carrier.n) < half, 1.0, 1.0 + _FMA), len(places))
    cases, more = [], {name: factors.reshape(bench.floats[name])}
    for start in range(half, min(carrier.n, half + 64), carrier.rows):
        values = np.zeros((carrier.rows, carrier.n))
        for row, place in enumerate(range(start, min(carrier.n, start + carrier.rows))):
            values[row, 0], values[row, place] = -1.0 - 2 * _FMA, 1.0 + _FMA
        cases.append(carrier.case(values, more))
    largest = max(float(np.abs(each).max()) for got in bench.outputs(cases) for each in got.values())
    return None if largest > 2 * _FMA * _FMA else largest > 0


def flushes(bench: Bench) -> bool | None:
    """Return whether subnormal numbers become zero; None where nothing shows."""
    name = next(iter(bench.floats), "")
    wide = [each for each, output in bench.like.outputs.items() if form(output.dtype).emin == SINGLE.emin]
    if not name or form(bench.like.inputs[name].dtype).emin != SINGLE.emin or not wide:
        return None
    values: dict[str, F64] = {each: np.ones(shape) for each, shape in bench.floats.items()}
    case = bench.filled({**values, name: np.full(bench.floats[name], _SUBNORMAL)})
    exact, [got] = bench.exact(case), bench.outputs([case])
    for each in wide:
        expected = np.abs(np.broadcast_to(exact[bench.trace.outputs[each]], got[each].shape))
        small = (expected > 0) & (expected < SINGLE.tiny) & (expected > 16 * form(bench.like.outputs[each].dtype).eta)
        if small.any():
            return bool((got[each][small] == 0).all())
    return None


def accuracy(bench: Bench) -> Mapping[str, float]:
    """Return the largest error in ulp that was seen of an elementwise op, by the function that it is, or else by its
    outputs."""
    nodes = bench.trace.nodes
    if any(node.kind in (*REDUCTIONS, "take", "position", "extent", "scan") for node in nodes) or not bench.floats:
        return {}
    grid = np.ldexp(1.0 + np.arange(_IN_BINADE) / _IN_BINADE, np.array(_BINADES)[:, None]).reshape(-1)
    grid = np.concatenate([grid, -grid])
    random, cases = np.random.default_rng(0), []
    size = max(int(np.prod(shape)) for shape in bench.floats.values())
    for start in range(0, min(len(grid), 64 * size), max(1, size)):
        values = {}
        for place, (name, shape) in enumerate(bench.floats.items()):
            own = np.roll(grid, -start) if place == 0 else random.permutation(grid)
            values[name] = np.resize(own, shape)
        cases.append(bench.filled(values))
    worst = dict[str, float]()
    for case, got in zip(cases, bench.outputs(cases), strict=True):
        exact = bench.exact(case)
        for name, node in bench.trace.outputs.items():
            dtype = form(case.outputs[name].dtype)
            with np.errstate(all="ignore"):
                expected = np.broadcast_to(exact[node], got[name].shape)
                normal = np.isfinite(expected) & (np.abs(expected) >= dtype.tiny) & (np.abs(expected) <= dtype.max)
                ulp = np.ldexp(1.0, np.frexp(expected)[1] - dtype.precision)
                errors = np.where(normal, np.abs(got[name] - expected) / ulp, 0.0)
            worst[name] = max(worst.get(name, 0.0), float(np.nan_to_num(errors, nan=np.inf).max(initial=0.0)))
    functions = [node.label for node in nodes if node.kind == "function" and not node.is_exact]
    alone = len(functions) == 1 and len(worst) == 1 and sum(bool(node.args) for node in nodes) == 1
    found = {functions[0]: next(iter(worst.values()))} if alone else worst
    # Beside a zero of the function, or where it is a small difference, an error says little of the kernel.
    return {name: error for name, error in found.items() if error <= _TELLING}


def repeats(bench: Bench, times: int = 4) -> bool:
    """Return whether the same call gives the same bits each time."""
    random = np.random.default_rng(0)
    case = bench.filled({name: random.normal(size=shape) for name, shape in bench.floats.items()})
    return len({tuple(each.outputs.items()) for each in bench.run([case] * times)}) == 1


def words_of_bits(bits: int | None) -> str:
    """Return the format that has so many bits, or the number of them."""
    named: Sequence[str] = [name for name in COMPUTED if FORMATS[name].precision == bits]
    return named[0] if named else f"{bits} bits"
