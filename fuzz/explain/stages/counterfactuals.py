"""Counterfactuals: runs of the smallest failing case with one thing changed, which anybody can repeat."""

from __future__ import annotations

import contextlib
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fuzz.core.base.case import Case, CaseError
from fuzz.core.base.draw import GIVEN, Draw, Frame
from fuzz.core.base.errors import UsageError
from fuzz.core.base.verdict import Verdict
from fuzz.core.generate import storage
from fuzz.core.generate import variations as vary
from fuzz.core.generate.given import VALUES, judged_values
from fuzz.core.generate.layouts import LAYOUT_CLASSES, classes_of
from fuzz.explain.explanation import Counterfactual
from fuzz.explain.trial.trial import OutOfTimeError, Trials
from oracles.dtypes import DTYPES
from oracles.operand import OUTER
from oracles.ops import OPS

Value = int | float | str
_SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 127, 128, 129, 256)
"""The extents that each dimension is tried with: those of vectors and tiles, one more, and one less."""
_SIZES_SLOWLY = (1, 2, 4, 8, 16, 64)
"""The extents that are tried if a case takes milliseconds."""
_BATCHES = (1, 2, 3, 8, 64)
_PRESENCE = ("there", "absent")
_OFFSETS = (0, 1, 2, 4, 8)
"""The numbers of elements between the guard page and the first element that are tried."""
_MOST_ELEMENTS = 1 << 26
"""The most elements of a tensor that a user may ask for: 512 MB in f64."""


@dataclass(frozen=True)
class _Edit:
    """Something that can be changed about a case: the values to try, a reader of values, and a way to change a draw."""

    subject: str
    own: Value
    values: Sequence[Value]
    read: Callable[[str], Any]
    make: Callable[[Draw, Any], Draw]


def counterfactuals(trials: Trials, case: Case) -> tuple[Counterfactual, ...]:
    """Return the results of changing one thing at a time about the case; changes that make it pass come first.

    Changes of the first dimension run even if the time is over. The result is empty if the case fits no draw, or passes
    with the strides that other extents require, since then more than one thing would change.
    Raises KeepsStateError where the first change that makes it pass does not do so in a new process: the number of
    calls decides then.
    """
    if not Frame(case).fits():
        return ()
    trials = replace(trials, family=replace(trials.family, clear=0.0, wide=True))
    hurried, told = replace(trials, out_of_time=lambda: False), list[Counterfactual]()
    with contextlib.suppress(OutOfTimeError, CaseError):
        base = vary.base_of(case)
        if not hurried.fails(vary.made(base)):
            return ()
        for place, edit in enumerate(_edits(base, trials)):
            found = _tried(hurried if place == 0 else trials, base, edit)
            if found.passing and not any(each.passing for each in told):
                hurried.confirm(vary.made(edit.make(base, found.passing[0])))
            told += [found] if found.passing or found.failing else []
    return held_against(told, ())


def _tried(trials: Trials, base: Draw, edit: _Edit) -> Counterfactual:
    """Run a draw with each value of one thing. Raises OutOfTimeError."""
    made = list[tuple[Value, Case]]()
    for value in edit.values:
        with contextlib.suppress(CaseError):
            made.append((value, vary.made(edit.make(base, value))))
    passing, failing = list[Value](), list[Value]()
    for (value, case), judgement in zip(made, trials.judge([case for _, case in made]), strict=True):
        if judgement is not None and judgement.verdict is Verdict.PASS:
            passing.append(value)
        elif trials.holds(case, judgement):
            failing.append(value)
    return Counterfactual(edit.subject, edit.own, tuple(passing), tuple(failing))


def held_against(told: Iterable[Counterfactual], failing: Iterable[Case]) -> tuple[Counterfactual, ...]:
    """Return the counterfactuals without the passing values that another failing case has: these values prove
    nothing."""
    had = defaultdict[str, list[Value]](list)
    for base in (vary.base_of(case) for case in failing if Frame(case).fits()):
        for edit in _edits(base, None):
            had[edit.subject].append(edit.own)
    found = []
    for each in told:
        own = had[each.subject]
        passing, refuted = ([v for v in each.passing if (v in own) is wanted] for wanted in (False, True))
        told_of = replace(each, passing=tuple(passing), refuted=(*each.refuted, *refuted))
        found.append(replace(told_of, against=each.against + len(own)))
    return tuple(sorted(found, key=lambda each: not each.passing))


def edited(case: Case, subject: str, value: str) -> Case:
    """Return the case with one thing changed, named as in a counterfactual. Raises UsageError."""
    about = f"--set {subject}={value}"
    if not Frame(case).fits():
        raise UsageError(f"{about}: the tensors of this case are not of the shapes that its op asks for")
    base = vary.base_of(case)
    edits = {edit.subject: edit for edit in _edits(base, None)}
    if subject not in edits:
        raise UsageError(f"{about}: there is no {subject!r} to change; there are {', '.join(edits)}")
    edit = edits[subject]
    try:
        draw = edit.make(base, edit.read(value))
        if max(math.prod(draw.shape(part.name)) for part in draw.parts) > _MOST_ELEMENTS:
            raise UsageError(f"{about}: a tensor would have more than {_MOST_ELEMENTS:,} elements")
        return vary.made(draw)
    except (ValueError, CaseError) as error:
        raise UsageError(f"{about}: {error}") from error


def _edits(base: Draw, trials: Trials | None) -> Iterator[_Edit]:
    """Yield the things that can be changed about a draw, with the values that are tried on the trials' target."""
    op, able = OPS[base.op], trials.target.kernel.able if trials is not None else None
    slowly = trials is not None and trials.target.costly
    own = base.part(op.main)
    for dim, size in base.sizes.items():
        if dim not in op.fixed:
            near = {size - 1, size + 1, 2 * size, *(_SIZES_SLOWLY if slowly else _SIZES)} - {size}
            yield _Edit(dim, size, sorted(n for n in near if n > 0), int, _sized(dim))
    if OUTER in op.inputs[0].axes and base.batch:
        rows = vary.batch_of(base)
        yield _Edit(op.batch_name, rows, [n for n in _BATCHES if n != rows], int, vary.sized)
    dtypes = [each for each in (able.dtypes if able is not None else DTYPES) if each != own.dtype]
    yield _Edit("dtype", own.dtype, dtypes, _one_of(DTYPES), vary.of_dtype)
    for parameter in op.parameters:
        unset = parameter.values[0] if parameter.neutral is None else parameter.neutral
        now = base.parameters.get(parameter.name, unset)
        others = [v for v in vary.values_of(base, parameter) if v != now]
        yield _Edit(parameter.name, now, others, _parameter, _with_parameter(parameter.name))
    judged = judged_values(trials.target.contract) if trials is not None else VALUES
    values = [each for each in judged if each not in (own.recipe, GIVEN)]
    yield _Edit("values", own.recipe, values, _one_of(VALUES), lambda draw, recipe: vary.with_values(draw, recipe, 1))
    for name in storage.grids(base):
        laid = base.part(name).placement.layout
        classes = [each for each in classes_of(len(base.shape(name))) if each != laid]
        yield _Edit(f"layout of {name}", laid, classes, _one_of(LAYOUT_CLASSES), _laid_out(name))
    offset = own.placement.offset
    yield _Edit("offset", offset, _OFFSETS, int, lambda draw, other: storage.placed_at(draw, "before", other))
    for operand in op.operands:
        if operand.optional:
            there = operand.name in {part.name for part in base.parts}
            own_word, other = _PRESENCE if there else _PRESENCE[::-1]
            yield _Edit(operand.name, own_word, [other], _one_of(_PRESENCE), _with_operand(operand.name))


def _sized(dim: str) -> Callable[[Draw, int], Draw]:
    return lambda draw, size: vary.extended(draw, {dim: size})


def _one_of(words: Iterable[str]) -> Callable[[str], str]:
    """Return a reader that accepts one of these words, and raises ValueError for others."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"it can be {', '.join(words)}")
        return text

    return read


def _parameter(text: str) -> float:
    """Return a parameter, rounded to f32 as kernels take it."""
    return float(np.float32(text))


def _with_parameter(name: str) -> Callable[[Draw, float], Draw]:
    return lambda draw, value: draw.with_params(**{name: value})


def _laid_out(name: str) -> Callable[[Draw, str], Draw]:
    return lambda draw, layout: storage.laid_out(draw, {name: layout})


def _with_operand(name: str) -> Callable[[Draw, str], Draw]:
    def make(draw: Draw, how: str) -> Draw:
        is_there = name in {part.name for part in draw.parts}
        if is_there == (how == "there"):
            return draw
        return draw.without(name) if is_there else vary.with_operand(draw, name)

    return make
