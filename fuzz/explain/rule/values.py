"""Traits of values: of a kernel's inputs, and of what the op's formula calculates from them, named as in the
formula."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import Any

import numpy as np

from fuzz.core.base.case import Case
from fuzz.core.base.draw import Frame
from fuzz.core.base.dtypes import from_bits, quantise
from fuzz.core.base.feature import Feature, Kind
from fuzz.core.base.stream import Reals
from fuzz.core.judge.values import problem_of
from fuzz.explain.rule.rule import OF_NOTHING, Trait, word
from oracles.dtypes import SINGLE, form
from oracles.formula.exact.arithmetic import Float64
from oracles.formula.exact.centre import Inputs, evaluate
from oracles.formula.trace import Node, Trace
from oracles.ops import OPS
from oracles.problem import ProblemError
from oracles.tiers.problem import FormulaProblem

_ALWAYS = 999
"""The exponent that stands for infinity."""


def value_traits(case: Case) -> Iterator[tuple[Feature, Trait]]:
    """Yield the traits of the values: of the first input, then of the others, then of what the formula calculates."""
    frame, main = Frame(case), OPS[case.op].main
    rows = _rows(case, main, frame)
    finite = np.where(np.isfinite(rows), rows, 0.0)
    zero, whole = (rows == 0).all(axis=-1), np.isfinite(rows).all(axis=-1)
    yield Feature("zero row", main), word(zero.any())
    yield Feature("ordinary row", main), word((whole & ~zero).any())
    with np.errstate(over="ignore"):  # the squares of f64 inputs may overflow
        squares = np.square(finite)
        means = squares.mean(axis=-1)
        yield Feature("squares"), word((squares.sum(axis=-1) > SINGLE.max).any())
    formula = dict(_formula_traits(case))
    largest = dict[str, float]()
    if whole.any():
        for parameter in OPS[case.op].parameters:
            told = any((each.kind, each.subject) == ("in ulp", parameter.name) for each in formula)
            if parameter.power in _MEANS and parameter.name in case.params and not told:
                level = float(means[whole].min()) ** (parameter.power / 2)
                yield from _scale_traits(case, parameter.name, _MEANS[parameter.power], level)
    for name in case.inputs:
        values = rows if name == main else _rows(case, name, frame)
        if name in OPS[case.op].integers:
            if OPS[case.op].operand(name).is_code:
                yield Feature("zero", name), word((values == 0).any())
                yield from _size_traits(name, values)
            else:
                yield from _integer_traits(name, values, OPS[case.op].integers[name], frame)
            continue
        yield from ((Feature("pattern", name, what), word(holds(values))) for what, holds in _PATTERNS.items())
        if name != main:
            yield Feature("ones", name), word((values == 1).all())
        yield from ((Feature(kind, name), word(holds(values).any())) for kind, holds in _SPECIAL.items())
        if OPS[case.op].has_rows(name):
            yield from _row_traits(name, values, form(case.inputs[name].dtype).tiny)
            yield from _apart_traits(name, values)
        yield from _size_traits(name, values)
        largest[name] = float(np.abs(values).max(initial=0.0, where=~np.isnan(values)))
    yield from formula.items()
    for one, other in combinations((name for name, size in largest.items() if 0 < size < np.inf), 2):
        yield Feature("magnitudes", one, f"that of {other}"), largest[one] / largest[other]


def plain_traits(name: str, rows: Reals) -> Iterator[tuple[Feature, Trait]]:
    """Yield the traits of the values of any tensor, shape `[rows, n]`: patterns, special values and sizes."""
    yield from ((Feature("pattern", name, what), word(holds(rows))) for what, holds in _PATTERNS.items())
    yield from ((Feature(kind, name), word(holds(rows).any())) for kind, holds in _SPECIAL.items())
    yield from _size_traits(name, rows)


def _integer_traits(name: str, values: Reals, dim: str, frame: Frame) -> Iterator[tuple[Feature, Trait]]:
    """Yield the traits of an input of indices along a dimension, or of flags: which values occur in it."""
    operand = OPS[frame.case.op].operand(name)
    last = operand.span(frame.whole)[1]
    yield Feature("place", name, "first") if dim else Feature("unset flag", name), word((values == 0).any())
    yield Feature("place", name, "last") if dim else Feature("set flag", name), word((values == last).any())
    if values.size:
        yield Feature("one everywhere", name, "place" if dim else "flag"), word((values == values.flat[0]).all())
    if operand.missing is not None:
        yield Feature("missing place", name), word((values == operand.missing).any())
    if operand.is_ends:
        yield Feature("empty piece", name), word((np.diff(values, axis=-1, prepend=0) <= 0).any())
    if dim:
        yield Feature("largest place", name), int(values.max(initial=0))


_SPECIAL: Mapping[Kind, Callable[[Reals], Reals]] = {
    "NaN": np.isnan,
    "infinity": np.isinf,
    "zero": lambda values: values == 0,
    "negative zero": lambda values: (values == 0) & np.signbit(values),
}
"""The special values of an input, each with the function that finds them."""


_PATTERNS: Mapping[str, Callable[[Reals], object]] = {
    "negative everywhere": lambda values: (values < 0).all(),
    "positive everywhere": lambda values: (values > 0).all(),
    "a whole number everywhere": lambda values: np.isfinite(values).all() and (values == np.rint(values)).all(),
    "without equal elements": lambda values: np.unique(values).size == values.size,
    "the same in all rows": lambda values: len(values) > 1 and (values == values[:1]).all(),
}
"""How all values of an input may be, each with the function that finds it."""
_ROW_PATTERNS: Mapping[str, Callable[[Reals], Any]] = {
    "in ascending order": lambda rows: (np.diff(rows) > 0).all(axis=-1),
    "in descending order": lambda rows: (np.diff(rows) < 0).all(axis=-1),
    "the same number other than 0 throughout": lambda rows: (rows == rows[:, :1]).all(axis=-1) & (rows[:, 0] != 0),
    "zero in part": lambda rows: (rows == 0).any(axis=-1) & (rows != 0).any(axis=-1),
    "largest in magnitude at its first element": lambda rows: np.abs(rows).argmax(axis=-1) == 0,
    "larger in magnitude at its last element than before": lambda rows: (
        np.abs(rows).argmax(axis=-1) == rows.shape[-1] - 1
    ),
}
"""How a row of several elements may be, each with the function that finds such rows."""


def _size_traits(name: str, values: Reals) -> Iterator[tuple[Feature, Trait]]:
    """Yield the smallest, median and largest magnitude of an input's elements other than 0."""
    sizes = np.sort(np.abs(values[~np.isnan(values) & (values != 0)]))
    if sizes.size:
        for which, size in (("smallest", sizes[0]), ("median", sizes[sizes.size // 2]), ("largest", sizes[-1])):
            yield Feature("magnitude", name, which), float(size)


def _apart_traits(name: str, values: Reals) -> Iterator[tuple[Feature, Trait]]:
    """Yield how far the largest magnitude of an input is from those of its rows."""
    sizes = np.abs(values).max(axis=-1, initial=0.0)
    sizes = sizes[np.isfinite(sizes)]
    some = sizes[sizes > 0]
    if len(some) > 1:
        for which, size in (("smallest", some.min()), ("median", np.median(sizes))):
            if size:
                yield Feature("magnitudes", name, f"that of its {which} row"), float(some.max() / size)


def _row_traits(name: str, values: Reals, normal: float) -> Iterator[tuple[Feature, Trait]]:
    """Yield the traits of an input's rows, and its largest element."""
    yield Feature("subnormal", name), word(((np.abs(values) < normal) & (values != 0)).any())
    if values.size:
        yield Feature("largest element", name), float(np.where(np.isnan(values), -np.inf, values).max())
        maxima = np.where(np.isnan(values), np.inf, values).max(-1)
        yield Feature("of rows", name, "smallest maximum"), float(maxima.min())
        yield Feature("equal elements", name), word((values == values[:, :1]).all(axis=-1).any())
        for what, holds in _ROW_PATTERNS.items() if values.shape[-1] > 1 else ():
            with np.errstate(invalid="ignore"):
                found = holds(values)
            yield Feature("row pattern", name, what), word(found.any())
            yield Feature("first row pattern", name, what), word(found[0])
    yield from _special_places(name, values)
    yield from _range_traits(name, values)
    finite = values[np.isfinite(values).all(axis=-1)]
    if finite.size:
        with np.errstate(all="ignore"):
            ranges, spread = np.ptp(finite, axis=-1), finite.std(axis=-1)
            centre = np.abs(finite.mean(axis=-1))
            means = np.where(centre > 0, centre / np.where(ranges == 0, 0.0, spread), 0.0)
        yield Feature("mean of rows", name), float(means.max())


def _range_traits(name: str, values: Reals) -> Iterator[tuple[Feature, Trait]]:
    """Yield the traits of rows with a finite maximum, with the elements that a mask leaves and with all."""
    rows = values[np.isfinite(values.max(axis=-1))] if values.size else values
    if rows.size:
        yield Feature("of rows", name, "smallest finite maximum"), float(rows.max(axis=-1).min())
        lowest = np.where(np.isfinite(rows), rows, np.inf).min(axis=-1)
        with np.errstate(over="ignore"):
            yield Feature("of rows", name, "widest range"), float((rows.max(axis=-1) - lowest).max())
            whole = float((rows.max(axis=-1) - rows.min(axis=-1)).max())
        yield Feature("of rows", name, "widest range, minus infinity included,"), whole


def _special_places(name: str, values: Reals) -> Iterator[tuple[Feature, Trait]]:
    """Yield the places of NaN in rows, and how many masked elements a row begins or ends with."""
    for where, rows in (("start", values), ("end", values[:, ::-1])):
        others = np.hstack([rows != -np.inf, np.ones((len(rows), 1), bool)])
        yield Feature("infinities", name, where), int(others.argmax(axis=-1).max(initial=0))
    is_nan = np.isnan(values[:, ::-1])
    if is_nan.any():
        yield Feature("after NaN", name), int(is_nan[is_nan.any(axis=-1)].argmax(axis=-1).min())


def _formula_traits(case: Case) -> Iterator[tuple[Feature, Trait]]:
    """Yield whether an output has a finite value other than 0, how large the values are that a row's elements share,
    and how a parameter compares with what it is added to."""
    try:
        problem = FormulaProblem(problem_of(case))
    except ProblemError:  # input that a kernel must reject need not fit the formula
        return
    if not problem.rows or not problem.length or not all(problem.arrangement.extents.values()):
        return
    trace = problem.plain.trace
    found = evaluate(Inputs(trace, problem.tensors, problem.parameters), Float64())
    for name, node in trace.outputs.items():
        if name in case.outputs:
            values = found[node]
            yield Feature("ordinary value", name), word((np.isfinite(values) & (values != 0)).any())
    for node, name in trace.names.items():
        if node.args and node in found:
            sizes = np.abs(found[node][~np.isnan(found[node])])
            if node.kind in ("add", "subtract") and all(_inner(arg).kind == "tensor" for arg in node.args):
                yield Feature("magnitude", name, "largest"), float(sizes.max(initial=0.0))
            elif OPS[case.op].row not in node.dims and (sizes := sizes[np.isfinite(sizes)]).size and sizes.max() > 0:
                yield Feature("size", name.replace("_", " ")), _log2(float(sizes.max()), 1.0)
    for parameter, other, name in _sums_with_parameters(trace):
        # Rows of zeros are left out, since they show nothing most of the time.
        shared = np.abs(found[other][np.isfinite(found[other]) & (found[other] != 0)])
        value = abs(problem.parameters.get(parameter, 0.0))
        yield (
            Feature("beside", parameter, ">", f"smallest {name}, 0 included"),
            word((np.abs(found[other]) < value).any()),
        )
        if shared.size:
            yield Feature("beside", parameter, ">", f"smallest {name}"), word(value > shared.min())
            yield Feature("beside", parameter, "<", f"largest {name}"), word(value < shared.max())
            yield Feature("over size", parameter, operand=f"largest {name}"), _log2(value, float(shared.max()))
            yield Feature("over size", parameter, operand=f"smallest {name}"), _log2(value, float(shared.min()))
        known = np.abs(found[other][np.isfinite(found[other])])
        if known.size and parameter in case.params and OPS[case.op].parameter(parameter).power:
            yield from _scale_traits(case, parameter, name, float(known.min()))


def _sums_with_parameters(trace: Trace) -> Iterator[tuple[str, Node, str]]:
    """Yield each parameter with the named value to which it is added, or from which it is subtracted."""
    for node in trace.nodes:
        if node.kind in ("add", "subtract"):
            one, other = (_inner(arg) for arg in node.args)
            for parameter, value in ((one, other), (other, one)):
                if parameter.kind == "parameter" and value in trace.names:
                    yield parameter.label, value, trace.names[value].replace("_", " ")


def _inner(node: Node) -> Node:
    return _inner(node.args[0]) if node.kind == "point" else node


_MEANS = {1: "root mean square", 2: "mean square"}
"""The mean of a row with which a parameter is compared, by the parameter's power of the scale."""


def _scale_traits(case: Case, name: str, mean: str, level: float) -> Iterator[tuple[Feature, Trait]]:
    """Yield the size of a parameter in ulp of the finest output, for the row in which it matters most: there the value
    that it is added to, or else the row's mean square, is smallest."""
    value = float(case.params[name])
    ulp = min(form(output.dtype).u for output in case.outputs.values())
    main = OPS[case.op].main
    change, whole = abs(_rounded(case, name) - value), level + abs(value)
    yield Feature("in ulp", name, operand=mean), _log2(abs(value), level * ulp)
    yield Feature("change in ulp", name, main, mean), _log2(change, whole * ulp)


def change_of(case: Case, name: str) -> float:
    """Return the factor by which a parameter changes when it is rounded to the dtype of the first input."""
    value = float(case.params[name])
    return _rounded(case, name) / value if value else 1.0


def _rounded(case: Case, name: str) -> float:
    dtype = case.inputs[OPS[case.op].main].dtype
    return float(quantise(np.array([float(case.params[name])]), dtype).astype(np.float64)[0])


def _log2(part: float, whole: float) -> int:
    share = part / whole if whole > 0 else math.inf
    if part == 0 or share == 0:  # the quotient may underflow
        return OF_NOTHING
    return math.floor(math.log2(share)) if share < math.inf else _ALWAYS


def _rows(case: Case, name: str, frame: Frame) -> Reals:
    """Return the values of an input, shape `[rows, n]`."""
    tensor = case.inputs[name]
    with np.errstate(invalid="ignore"):
        values = from_bits(tensor.bits, tensor.dtype, tensor.layout.shape).astype(np.float64)
    op = OPS[case.op]
    if not op.has_rows(name):
        return values.reshape(1, -1)
    if name in op.alike:
        values = np.moveaxis(values, frame.axis, -1)
    return values.reshape(-1, values.shape[-1]) if values.size else np.zeros((1, 1))
