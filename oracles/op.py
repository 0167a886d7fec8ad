"""An op as one object: its operands, its parameters, its formula, and its other properties.

Generation, acceptance, laws, shrinking, reports and the oracle ask this object for all facts about an op: they know no
operand or parameter by name. `oracles.ops` has the built-in ops, packs bring others. This module imports neither NumPy
nor mpmath, so that ops can be listed without loading either.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from oracles.dim import OpDim, counts_of, dims_of, steps_of
from oracles.dtypes import DTYPES, INDICES, Integer
from oracles.elementary import FormulaError
from oracles.formula.made import Counts, Multiples, completed, few, follows, grown, parts_of, square_parts
from oracles.lazy import lazy
from oracles.operand import (
    AXIS,
    CODES,
    FLAGS,
    MOST,
    MOST_DIMS,
    OUTER,
    RESERVED,
    Flip,
    Kept,
    Operand,
    OpError,
    Parameter,
)

Extents = Mapping[str, int]
"""The number of elements along dimensions, by name."""
NO_EXTENTS: Extents = MappingProxyType({})


_MANY = 1 << 10
"""An extent that stands for an unknown one: larger than any required minimum."""
_LOWEST = -(2**31)
"""The lowest number that every integer dtype of places has."""
TAKEN = ("rows", "rank", "axis", "batch", "lanes")
"""Words that no dimension may have as its name, since they mean something else in cases."""


@dataclass(frozen=True)
class Op:
    """A mathematical operation."""

    formula: Callable[..., Mapping[str, Any]]
    """The formula, see `oracles.formula.trace`: a function of the inputs and parameters by name. Optional inputs and
    parameters have defaults."""
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    parameters: tuple[Parameter, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    """The (output, input) pairs that a kernel may declare to share memory."""
    flips: tuple[Flip, ...] = ()
    scaling: Mapping[str, int] = field(default_factory=dict)
    """Integer powers by tensor. If each of these inputs is multiplied by s to its power, where s is a power of two,
    each of these outputs is multiplied by s to the output's power, bit for bit unless numbers overflow or underflow.
    Other tensors do not change."""
    algorithms: Mapping[str, Mapping[str, Callable[..., Any]]] = field(default_factory=dict)
    """Other ways to calculate the same exact value. For each local of the formula, functions by name, which replace the
    expression of that local if a contract names them. Their arguments are other locals and tensors."""
    open_ways: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The algorithms that are allowed for a local if the contract names none, such as {"most": ("formula", "finite")}:
    published kernels use either and do not document which."""
    recipes: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """The op's own recipes for values of inputs, by name: functions of a `generate.scene.Scene`, which has the inputs
    drawn so far, and of a stream of random numbers."""
    fixed: Extents = field(default_factory=dict)
    """Dimensions with a fixed extent, such as {"half": 2} for rotary embeddings."""
    least: Extents = field(default_factory=dict)
    """The smallest extent of a dimension, or the smallest product of the extents of several, such as {"h w": 2} for a
    variance over both, which has no meaning with fewer elements."""
    multiples: Multiples = field(default_factory=dict)
    """The dimensions whose extent must be a multiple of a number, such as {"d": 2} for an even d. A pair of a number
    and a remainder, {"d": (2, 1)}, stands for an odd d."""
    square: tuple[tuple[str, str], ...] = ()
    """Pairs of dimensions with equal extents, such as those of symmetric matrices."""
    shapes: tuple[Extents, ...] = ()
    """Extents of published models, each for some dimensions together, such as {"d": 128, "e": 128} or {"group": 8,
    "head": 4}. A share of the cases has these extents."""
    from_returned: Op | None = None
    """An op that calculates some outputs from inputs and from other outputs as the kernel returned them, such as codes
    from the stored scale. If a contract leaves those other outputs open, outputs are also judged by this op."""
    summary: str = ""
    """The line that `kernelfuzz list ops` prints."""

    def __post_init__(self) -> None:
        """Raise OpError if the fields contradict each other."""
        check_declared(self)

    @lazy
    def integers(self) -> Mapping[str, str]:
        """Return, for each integer input, the dimension along which its values are places; "" for flags and codes."""
        return {each.name: each.index for each in self.inputs if each.integers}

    @lazy
    def kept(self) -> Mapping[str, Kept]:
        """Return, by input, the properties that its values always have."""
        return {each.name: each.kept for each in self.inputs if each.kept}

    @lazy
    def counted(self) -> frozenset[str]:
        """Return the dimensions that must have an element, since the values of some input are places along them. Ends
        and lengths do not count: pieces of a dimension may be empty."""
        return frozenset(each.index for each in self.inputs if each.index and not each.is_bound)

    def __hash__(self) -> int:
        return hash(self.name)

    @lazy
    def name(self) -> str:
        """Return the name of the op, which is the name of its formula."""
        return self.formula.__name__

    @lazy
    def row(self) -> str:
        """Return the dimension along which a row of the first input lies."""
        return self.inputs[0].axes[-1]

    @lazy
    def inner(self) -> tuple[str, ...]:
        """Return the named dimensions of the first input."""
        return tuple(dim for dim in self.inputs[0].axes if dim != OUTER)

    @lazy
    def any_axis(self) -> bool:
        """Whether the row of a case may lie along any axis of the first input: true if its dimensions are "... n".
        Every tensor with the same dimensions then has its row along the same axis."""
        return self.inputs[0].axes == (OUTER, self.row)

    @lazy
    def alike(self) -> frozenset[str]:
        """Return the names of the tensors that have the dimensions of the first input, in the same order."""
        return frozenset(each.name for each in self.operands if each.axes == self.inputs[0].axes)

    @lazy
    def columns(self) -> frozenset[str]:
        """Return the names of inputs with one element for each place along the row, if the first input is "... n"."""
        return frozenset(each.name for each in self.inputs if self.any_axis and each.axes == (self.row,))

    @lazy
    def dimensions(self) -> Mapping[str, OpDim]:
        """Return the op's dimensions by name, "..." for unnamed ones, with the properties that the formula implies."""
        return dims_of(self.formula, self.inputs, self.outputs, self.parameters)

    @lazy
    def steps(self) -> tuple[frozenset[str], ...]:
        """Return the sets of dimensions of the largest steps of the formula. Attention has "b h i j d" and "b h i j e":
        no step has all six dimensions."""
        return steps_of(self.formula, self.inputs, self.outputs, self.parameters)

    def work(self, extents: Extents) -> int:
        """Return the number of terms of the largest step for these extents; a dimension that is not given counts as 1.
        The oracle's time is proportional to this number."""
        if self.made:
            ones = dict.fromkeys(self.named, 1)
            for pair in self.square:
                extents = {**extents, **dict.fromkeys(pair, max(extents.get(dim, 1) for dim in pair))}
            extents = completed(self.made, {**ones, **self.fixed, **extents}, least=1)
        return max(math.prod(extents.get(dim, 1) for dim in step) for step in self.steps)

    @lazy
    def made(self) -> Counts:
        """Return the dimensions whose extents follow from others, with the expressions of these extents. Raises OpError
        if the first input has such a dimension, since a case states the shape of the first input."""
        found = counts_of(self.formula, self.inputs, self.parameters)
        if wrong := [dim for dim in self.inputs[0].axes if dim in found]:
            raise OpError(f"{self.name}: {wrong[0]!r} follows from others, and its first input has it: say these of it")
        return {**found, **parts_of(self.multiples), **square_parts(self.square)}

    def whole(self, extents: Extents) -> Extents | None:
        """Return the extents and those that follow from them. Return None if an extent would be no whole number or
        below its minimum, or would be zero although the extents from which it follows are not."""
        if self.least:
            many = dict.fromkeys(self.named, _MANY)
            if few(self.least, self.made, {**many, **self.fixed, **extents}):
                return None
        if not self.made:
            return extents
        try:
            found = completed(self.made, extents)
        except FormulaError:
            return None
        none = (dim for dim in self.made if found.get(dim) == 0)
        return None if any(all(found[each] for each in follows(self.made, [dim])) for dim in none) else found

    @lazy
    def too_short(self) -> tuple[str, ...]:
        """Return, as text such as "t < 2", the extents that no case has although a kernel may take them: with them a
        step of the formula would have no terms, as x[:, 1:] has none if t is 1."""
        ones = dict.fromkeys(self.named, 1) | dict(self.fixed)
        seen = {dim for each in self.operands for dim in each.axes}
        steps = [dim for dim, size in completed(self.made, ones, least=0).items() if not size and dim not in seen]
        least = grown(self.made, ones, self.fixed)
        return tuple(f"{dim} < {least[dim]}" for dim in sorted(follows(self.made, steps)) if least[dim] > ones[dim])

    @lazy
    def tiled(self) -> tuple[str, ...]:
        """Return the dimensions that kernels split into tiles: "..." if the first input is "... n"; a dimension that a
        required tensor lacks, since each element of that tensor is used repeatedly along it; and the last dimension of
        each tensor, along which vectors lie. Other dimensions count independent problems, such as the batch and heads
        of attention."""
        last = {each.axes[-1] for each in self.operands if each.axes}
        always = [each for each in self.operands if not each.optional]
        shared = {dim for dim in self.named if all(dim in each.axes for each in always)}
        named = (dim for dim in self.named if dim not in self.fixed and (dim in last or dim not in shared))
        return *((OUTER,) if self.any_axis else ()), *named

    @lazy
    def batch_name(self) -> str:
        """Return the word for the unnamed dimensions: "rows", or "batch" if the first input has several named
        dimensions; "..." if a named dimension has that word as its name."""
        name = "rows" if len(self.inner) == 1 else "batch"
        return name if name not in self.named else OUTER

    @lazy
    def further(self) -> tuple[str, ...]:
        """Return the dimensions that the first input lacks, so that a case must state their extents; without those that
        follow from others."""
        named = dict.fromkeys(dim for each in self.operands for dim in each.axes)
        return tuple(dim for dim in named if dim not in self.inputs[0].axes and dim not in self.made)

    @lazy
    def named(self) -> tuple[str, ...]:
        """Return the named dimensions, without those that follow from others; those of the first input come first."""
        return *self.inner, *self.further

    @lazy
    def main(self) -> str:
        """Return the name of the first input, whose shape decides the shapes of the other tensors."""
        return self.inputs[0].name

    @lazy
    def operands(self) -> tuple[Operand, ...]:
        """Return the inputs, then the outputs."""
        return *self.inputs, *self.outputs

    @lazy
    def optional(self) -> tuple[str, ...]:
        """Return the names of the operands that a case may lack."""
        return tuple(operand.name for operand in self.operands if operand.optional)

    def is_input(self, name: str) -> bool:
        """Whether the op has an input of that name."""
        return name in self._inputs

    def operand(self, name: str) -> Operand:
        """Return the input or output of that name. Raises KeyError."""
        return self._by_name[name]

    def parameter(self, name: str) -> Parameter:
        """Return the parameter of that name. Raises KeyError."""
        return self._parameters[name]

    def has_rows(self, name: str) -> bool:
        """Whether an operand has several dimensions, so layouts and recipes of rows like the first input. Raises
        KeyError."""
        return name in self.alike or len(self._by_name[name].axes) > 1

    @lazy
    def neutral(self) -> Mapping[str, float]:
        """Return, for each optional parameter, the value that it has in a case without it."""
        return {each.name: each.neutral for each in self.parameters if each.neutral is not None}

    @lazy
    def params(self) -> tuple[str, ...]:
        """Return the names of the parameters that a case may have, including the axis of the row."""
        return *(each.name for each in self.parameters), AXIS

    @lazy
    def _by_name(self) -> Mapping[str, Operand]:
        return {operand.name: operand for operand in self.operands}

    @lazy
    def _inputs(self) -> frozenset[str]:
        return frozenset(operand.name for operand in self.inputs)

    @lazy
    def _parameters(self) -> Mapping[str, Parameter]:
        return {each.name: each for each in self.parameters}

    def shape(self, name: str, grid: tuple[int, ...], axis: int, extents: Extents = NO_EXTENTS) -> tuple[int, ...]:
        """Return the shape of an operand. `grid` is the shape of the first input, `axis` the axis of its row, and
        `extents` are those of the dimensions that it lacks. Raises OpError if a dimension has no extent."""
        if name in self.alike:
            return grid
        given = {**self.sizes(grid, axis), **extents}
        known, outer = self.whole(given) or given, self.outer(grid, axis)
        if none := [dim for dim in self._by_name[name].axes if dim != OUTER and dim not in known]:
            raise OpError(f"{name} has no elements along {none[0]!r}, whatever the extents")
        return tuple(size for dim in self._by_name[name].axes for size in (outer if dim == OUTER else (known[dim],)))

    def outer(self, grid: tuple[int, ...], axis: int) -> tuple[int, ...]:
        """Return the extents of the unnamed dimensions, given the shape of the first input and its row's axis."""
        return (*grid[:axis], *grid[axis + 1 :])[: len(grid) - len(self.inner)]

    def sizes(self, grid: tuple[int, ...], axis: int) -> Extents:
        """Return the extents of the named dimensions of the first input, given its shape and its row's axis."""
        turned = (*grid[:axis], *grid[axis + 1 :], *grid[axis : axis + 1])
        return dict(zip(self.inner, turned[len(grid) - len(self.inner) :], strict=False))

    def has_fixed(self, grid: tuple[int, ...], axis: int, extents: Extents) -> bool:
        """Whether these extents agree with the fixed ones, and all other extents follow from them."""
        known = {**self.sizes(grid, axis), **extents}
        return all(known.get(dim, size) == size for dim, size in self.fixed.items()) and self.whole(known) is not None

    def extents(self, shapes: Mapping[str, tuple[int, ...]]) -> Extents:
        """Return the extents of dimensions that the first input lacks, from the shapes of tensors by name: for each
        dimension the first tensor that has it decides. A tensor with too few axes is skipped."""
        found = dict[str, int]()
        for each in self.operands if self.further else ():
            named = [dim for dim in each.axes if dim != OUTER]
            shape = shapes.get(each.name, ())
            if len(shape) >= len(named):
                for dim, size in zip(reversed(named), reversed(shape), strict=False):
                    found.setdefault(dim, size)
        return {dim: found[dim] for dim in self.further if dim in found}

    def dims(self, name: str, rank: int, axis: int) -> str:
        """Return the names of an operand's axes, separated by spaces, for an operand of that rank and the axis of the
        row. An unnamed axis is "..."."""
        inner = [each for each in self._by_name[name].axes if each != OUTER][:rank]
        words = [OUTER] * (rank - len(inner)) + inner
        if name in self.alike:
            words.insert(axis, words.pop())
        return " ".join(words)

    def possible_shapes(
        self, name: str, grid: tuple[int, ...], axis: int, extents: Extents = NO_EXTENTS
    ) -> tuple[tuple[int, ...], ...]:
        """Return all shapes that an operand of a case may have, the usual one first, including invalid shapes of
        columns. Return () if the grid does not fit the first input, or if an extent is unknown or impossible."""
        known, rank = {*self.inner, *extents}, len(grid) if OUTER in self.inputs[0].axes else len(self.inner)
        missing = {*self._by_name[name].axes} - known - {OUTER, *self.made}
        misplaced = axis != rank - 1 and not self.any_axis
        misplaced |= bool(self.made) and self.whole({**self.sizes(grid, axis), **extents}) is None
        if not len(self.inner) <= len(grid) == rank or misplaced or missing or not self.has_fixed(grid, axis, extents):
            return ()
        usual = self.shape(name, grid, axis, extents)
        if name not in self.columns:
            return (usual,)
        return usual, (1, *usual), (adjacent_extent(grid, axis), *usual)


def adjacent_extent(grid: tuple[int, ...], axis: int) -> int:
    """Return the extent of the innermost axis other than that of the row, or 1 for a single row."""
    others = grid[:axis] + grid[axis + 1 :]
    return others[-1] if others else 1


def check_declared(op: Op) -> None:
    """Raise OpError if the declaration of an op contradicts itself."""
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
    for said, extents in (("fixed", op.fixed), *(("shapes", shape) for shape in op.shapes)):
        for dim, size in extents.items():
            if dim not in op.named or size < 1 or op.fixed.get(dim, size) != size:
                raise OpError(f"{op.name}: {said}: {dim!r} cannot be {size}: only named dimensions can, and 1 or more")
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
    """Raise OpError for an integer operand that is declared as neither places, flags nor codes, or wrongly."""
    known = {*DTYPES, *(each.name for each in op.operands), ""}
    if operand.is_bound and not (operand.index and (operand.axes or not operand.is_ends)):
        pieces = ", and a dimension of pieces" if operand.is_ends else ""
        raise OpError(
            f"{op.name}: {operand.name}: values={operand.values!r}: write index='DIMENSION' that they are along{pieces}"
        )
    if operand.missing is not None and not (operand.index and _LOWEST <= operand.missing < 0 and not operand.is_bound):
        raise OpError(f"{op.name}: {operand.name}: missing {operand.missing!r} is no number below 0 beside an index")
    if operand.dtype not in known:
        words = f"dtype {operand.dtype!r} is neither a tensor of the op nor one of {', '.join(DTYPES)}"
        raise OpError(f"{op.name}: {operand.name}: {words}")
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
    if operand.is_bound:  # its own extent is unknown
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
    """Return the dimensions whose extents the formula states; none if it cannot be traced, reported elsewhere."""
    try:
        return frozenset(op.made)
    except Exception:  # a formula may raise anything
        return frozenset()


def _check_dims(op: Op) -> None:
    """Raise OpError for dimensions of tensors with forbidden names, in a wrong order, or of unknown extents."""
    given = {dim for each in op.inputs if not each.optional for dim in each.axes}
    if any(dim not in given for each in op.outputs for dim in each.axes):
        given |= _made(op)
    for each in op.operands:
        about = f"{op.name}: {each.name} has the dimensions {each.dims!r}"
        named = [dim for place, dim in enumerate(each.axes) if dim != OUTER or place]
        for dim in named:
            if not re.fullmatch(r"[a-z][a-z0-9_]{0,30}", dim) or dim in TAKEN:
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
