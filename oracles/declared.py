"""What contradicts itself in an op as it is declared: names, dimensions, integers, aliases."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from oracles.dtypes import DTYPES, INDICES, Integer
from oracles.operand import CODES, FLAGS, OUTER, Flip, Operand

if TYPE_CHECKING:
    from oracles.op import Op

AXIS = "axis"
"""The number that says, with every case, which axis of the first input is that of the rows."""
RESERVED = (AXIS, "threads")
"""What a case may have beside what its op declares."""
MOST = 48
"""A case has no more tensors, nor parameters: each tensor's surroundings hold another quiet NaN, and there are 56."""
MOST_DIMS = 6
"""A tensor has no more named dimensions: kernels are given none of a higher rank."""
_LOWEST = -(2**31)
"""The lowest number that every dtype of places has."""
_TAKEN = ("rows", "rank", "axis", "batch", "lanes")
"""What cases are told by in other words: no dimension is called so."""


class OpError(ValueError):
    """An op that contradicts itself. The message starts with the op's name."""


def check_declared(op: Op) -> None:
    """Raise OpError for what cannot be an op."""
    names = [*(operand.name for operand in op.operands), *(each.name for each in op.parameters)]
    for name in (op.name, *names):
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,30}", name):
            raise OpError(f"{op.name}: {name!r} may hold small letters, digits and '_' only, 31 of them")
    for name in names:
        if name in RESERVED:
            raise OpError(f"{op.name}: no tensor or parameter can be called {name!r}")
        if names.count(name) > 1:
            raise OpError(f"{op.name}: two tensors or parameters are called {name!r}")
    if max(len(op.operands), len(op.parameters)) > MOST:
        raise OpError(f"{op.name}: it has more than {MOST} tensors or parameters")
    if not op.inputs or not op.outputs:
        raise OpError(f"{op.name}: it needs an input and an output")
    if op.inputs[0].optional or not op.inner:
        raise OpError(f"{op.name}: its first input must always be there, with dimensions such as '... n' or 'm k'")
    _check_dims(op)
    for field, extents in (("fixed", op.fixed), *(("shapes", shape) for shape in op.shapes)):
        for dim, size in extents.items():
            if dim not in op.named or size < 1 or op.fixed.get(dim, size) != size:
                raise OpError(f"{op.name}: {field}: {dim!r} cannot be {size}: only named dimensions can, and 1 or more")
    for dim, multiple in op.multiples.items():
        numbers = multiple if isinstance(multiple, tuple) else (multiple, 0)
        whole = len(numbers) == 2 and all(type(number) is int for number in numbers) and numbers[0] >= 1
        if dim not in op.named or not whole or (op.fixed.get(dim, numbers[1]) - numbers[1]) % numbers[0]:
            raise OpError(
                f"{op.name}: multiples: {dim!r} cannot be of {multiple!r}: named dimensions can, of 1 or more, or "
                "of (2, 1) for odd numbers"
            )
    for dims, size in op.least.items():
        if not {*dims.split()} <= {*op.named, *op.made} or not dims.split() or size < 1:
            raise OpError(f"{op.name}: least: {dims!r} cannot be {size}: named dimensions can, and 1 or more")
    for each in op.operands:
        _check_integers(op, each)
    for flip in op.flips:
        if not isinstance(flip, Flip):
            raise OpError(
                f"{op.name}: flips: {flip!r} is no Flip(('x',), ('y',)): inputs, and outputs negated with them"
            )
    if not isinstance(op.scaling, Mapping) or not all(isinstance(power, int) for power in op.scaling.values()):
        raise OpError(f"{op.name}: scaling: {op.scaling!r} is no power by tensor, such as {{'x': 1, 'y': 1}}")
    for local, ways in op.open_ways.items():
        for way in ways:
            if way != "formula" and way not in op.algorithms.get(local, ()):
                raise OpError(f"{op.name}: open_ways: {local} has no algorithm {way!r}")
    for output, source in op.aliases:
        if not op.is_input(source) or op.is_input(output) or output not in names:
            raise OpError(f"{op.name}: aliases: {(output, source)} is no pair of an output and an input")
    again = op.from_returned
    if again is not None:
        own = (*(operand.name for operand in again.operands), *(each.name for each in again.parameters))
        strange = [name for name in own if name not in names]
        strange += [each.name for each in again.outputs if op.is_input(each.name)]
        if strange:
            raise OpError(f"{op.name}: from_returned: {strange[0]!r} is no tensor or parameter that it could be")


def _check_integers(op: Op, operand: Operand) -> None:
    """Raise OpError for integers that are neither places nor flags."""
    known = {*DTYPES, *(each.name for each in op.operands), ""}
    if operand.is_bound and not (operand.index and (operand.axes or not operand.is_ends)):
        pieces = ", and a dimension of pieces" if operand.is_ends else ""
        raise OpError(
            f"{op.name}: {operand.name}: values={operand.values!r}: write index='DIMENSION' that they are along{pieces}"
        )
    if operand.missing is not None and not (operand.index and _LOWEST <= operand.missing < 0 and not operand.is_bound):
        raise OpError(f"{op.name}: {operand.name}: missing {operand.missing!r} is no number below 0 beside an index")
    if operand.dtype not in known:
        raise OpError(
            f"{op.name}: {operand.name}: dtype {operand.dtype!r} is no tensor of the op and none of {', '.join(DTYPES)}"
        )
    if not operand.integers:
        return
    about = f"{op.name}: {operand.name}"
    if not op.is_input(operand.name):
        if operand.index:
            raise OpError(f"{about}: index {operand.index!r}: that is said of inputs alone")
        return
    if operand.name == op.main:
        raise OpError(f"{about}: dtype {operand.dtype}: the first input cannot be of integers")
    if operand.dtype not in operand.integers:
        raise OpError(f"{about}: index {operand.index!r}: places are of dtype {' or '.join(INDICES)}")
    given = {dim for each in op.inputs if not each.optional for dim in each.axes if dim != OUTER}
    several = len(operand.along) > 1 and not operand.is_bound
    if operand.is_bound:  # what ends along its own dimension is not known
        given -= {*operand.axes}
    if several or not ({*operand.along} <= given or {*operand.along} <= given | _made(op)):  # the latter takes time
        raise OpError(f"{about}: index {operand.index!r} is no dimension of an input that is always there")
    if not operand.index and not (operand.is_code or operand.is_flags):
        raise OpError(
            f"{about}: dtype {operand.dtype}: write index='DIMENSION' where it says places along one,"
            f" values={FLAGS!r} where it is 0 or 1, or values={CODES!r} where it is any number of the dtype"
        )
    if operand.is_code and not isinstance(DTYPES[operand.dtype], Integer):
        raise OpError(f"{about}: values={CODES!r}: its dtype must be one of integers, such as int8")
    if operand.stackable:
        raise OpError(f"{about}: integers cannot be stackable")


def _made(op: Op) -> frozenset[str]:
    """The dimensions that the formula makes; none of what is no formula, which is said elsewhere."""
    try:
        return frozenset(op.made)
    except Exception:  # whatever it raises
        return frozenset()


def _check_dims(op: Op) -> None:
    """Raise OpError for dimensions that tensors cannot have."""
    given = {dim for each in op.inputs if not each.optional for dim in each.axes}
    if any(dim not in given for each in op.outputs for dim in each.axes):
        given |= _made(op)
    for each in op.operands:
        about = f"{op.name}: {each.name} has the dimensions {each.dims!r}"
        named = [dim for place, dim in enumerate(each.axes) if dim != OUTER or place]
        for dim in named:
            if not re.fullmatch(r"[a-z][a-z0-9_]{0,30}", dim) or dim in _TAKEN:
                raise OpError(f"{about}, where {dim!r} can be the name of none")
        if len({*named}) < len(named) or len(named) > MOST_DIMS:
            raise OpError(f"{about}: names may stand there once, {MOST_DIMS} at most, and '...' before them")
        if OUTER in each.axes and OUTER not in op.inputs[0].axes:
            raise OpError(f"{about}, and its first input has no '...'")
        if not op.is_input(each.name) and (missing := [dim for dim in each.axes if dim not in given]):
            raise OpError(
                f"{about}: no input that is always there says how long {missing[0]!r} is, nor does the formula make it"
            )
        if each.stackable and each.name not in op.columns:
            raise OpError(f"{about}: only an input along the row of a first input such as '... n' can be stackable")
    for output, source in op.aliases:
        if {output, source} <= {each.name for each in op.operands} and op.operand(output).axes != op.operand(
            source
        ).axes:
            raise OpError(f"{op.name}: aliases: {output} has other dimensions than {source}")
