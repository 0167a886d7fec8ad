"""The capabilities that a kernel declares, and which cases are within them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal, NamedTuple, get_args

import numpy as np

from fuzz.core.base.case import THREADS, Case, Layout, Output, Tensor
from fuzz.core.base.draw import Frame
from fuzz.core.base.dtypes import NUMPY_DTYPE
from fuzz.core.base.probe import PROBE
from fuzz.core.base.text import counted
from oracles.dtypes import FLOATS, ITEMSIZE
from oracles.lazy import lazy
from oracles.operand import AXIS
from oracles.ops import OPS

MAX_RANK = 6
"""The highest rank of a tensor that is passed to a kernel. It is KF_MAX_RANK in kernelfuzz.h."""

Strides = Literal["contiguous", "spaced", "pitched", "rows", "any"]

_ANY = get_args(Strides).index("any")


class Refusal(NamedTuple):
    """The reason why a case must be rejected."""

    what: str
    """The part of the case that is invalid, such as 'dtype of x'."""
    reason: str


class DeclarationError(ValueError):
    """A declaration that is impossible. The message starts with the name of the field."""


def one_of(field: str, value: object, known: tuple[str, ...]) -> None:
    """Raise DeclarationError unless `value` is one of the `known` values."""
    if value not in known:
        close = get_close_matches(str(value), known, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise DeclarationError(f"{field}: {value!r} is not one of {', '.join(known)}{hint}")


@dataclass(frozen=True)
class Capabilities:
    """The inputs that a kernel accepts. It is given no others, except invalid ones that it promises to reject."""

    dtypes: tuple[str, ...] = ("f32",)
    axis: Literal["last", "any"] = "last"
    """The axes of the first input along which rows may lie: only the last, or any."""
    strides: Strides = "contiguous"
    """The strides that are taken. 'contiguous': C order without gaps; 'pitched': unit stride along the row, equal
    distances between rows; 'spaced': the same with a distance of at least a row's length, like the leading dimensions
    of BLAS; 'rows': unit stride along the row, any strides between rows; 'any'. An axis of one element may have any
    stride, since its stride is never used."""
    aliases: tuple[tuple[str, str], ...] = ()
    """The (output, input) pairs that may be the same memory, such as (("y", "x"),) of rms_norm in place."""
    overlap: tuple[tuple[str, str], ...] = ()
    """The (output, input) pairs whose memory may overlap in part, as memmove allows and memcpy does not."""
    takes: tuple[str, ...] | None = None
    """The optional tensors that may be present, such as ("weight", "rstd") of rms_norm; others never are. None leaves
    it to the source: a Python kernel takes those that are parameters with a default, a C kernel takes none."""
    needs: tuple[str, ...] = ()
    """The optional tensors that must be present. For a Python kernel, parameters without a default are added."""
    mixed: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The dtypes of tensors other than the first input, if they may differ from the default, as (name, dtypes). In
    dtypes, the first input's name stands for its dtype. By default each tensor has the dtype named by its `Operand`."""
    params: tuple[str, ...] | None = None
    """The parameters with a neutral value that may have other values. None leaves it to the source: a Python kernel
    takes those that are parameters of its function, a C kernel takes none."""
    stacked: tuple[str, ...] = ()
    """The inputs of one row that may also be given as several rows (rank 2): row r of the first input then uses their
    row r modulo their number of rows, see `Operand.stackable`."""
    max: Mapping[str, int] = field(default_factory=dict)
    """The largest extents, by dimension, such as {"n": 8192}."""
    multiple_of: Mapping[str, int] = field(default_factory=dict)
    """The divisors of extents, by dimension. A kernel for d = 64 alone has `multiple_of={"d": 64}, max={"d": 64}`."""
    empty: bool | None = None
    """Whether tensors may have no elements: rows of length 0, or no rows. None means that they may, except in a check
    of a plain function by a reference, where whoever only adds a dtype does not think of them."""
    alignment: int = 1
    """A divisor of the address of every row's first element, in bytes. 1 allows any address of an element."""

    outside: Literal["undefined", "rejects"] = "undefined"
    """What happens with other inputs. 'undefined': they are never tried. 'rejects': they are given to the kernel on
    purpose, and it must return KF_REJECTED."""
    checks: tuple[str, ...] = ()
    """The inputs of places whose values the kernel checks: it rejects a call if a value lies outside the dimension,
    whatever `outside` says. Only these inputs are given such values."""

    def __post_init__(self) -> None:
        _check_dtypes("capabilities.dtypes", self.dtypes)
        for pair in self.mixed:
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise DeclarationError(f"capabilities.mixed: write pairs, (('w', ('f32',)),), in place of {pair!r}")
            _check_dtypes(f"capabilities.mixed: {pair[0]}", pair[1])
        for dtype in self.dtypes:
            one_of("capabilities.dtypes", dtype, FLOATS)
        one_of("capabilities.axis", self.axis, ("last", "any"))
        one_of("capabilities.strides", self.strides, get_args(Strides))
        one_of("capabilities.outside", self.outside, ("undefined", "rejects"))
        if self.alignment < 1 or self.alignment & (self.alignment - 1):
            raise DeclarationError(f"capabilities.alignment: {self.alignment} is not a power of two")
        _check_extents("max", self.max, least=0)
        _check_extents("multiple_of", self.multiple_of, least=1)
        for dim, step in self.multiple_of.items():
            if 0 < self.max.get(dim, step) < step:
                raise DeclarationError(f"capabilities.max: {dim}: no multiple of {step} is at most {self.max[dim]}")

    def __hash__(self) -> int:
        return hash(tuple(frozenset(v.items()) if isinstance(v, Mapping) else v for v in vars(self).values()))

    @property
    def rejects(self) -> bool:
        """Whether the kernel is given some invalid input on purpose."""
        return self.outside == "rejects" or bool(self.checks)

    @property
    def formats(self) -> tuple[str, ...]:
        """The formats that the capabilities name, for any tensor."""
        named = {*self.dtypes, *(dtype for _, dtypes in self.mixed for dtype in dtypes)}
        return tuple(dtype for dtype in FLOATS if dtype in named)

    @property
    def optional(self) -> tuple[str, ...]:
        """The optional tensors that may or must be present."""
        return (*(self.takes or ()), *self.needs)


def _check_dtypes(field: str, given: object) -> None:
    """Raise DeclarationError for a value that is empty or no tuple, such as a string, whose letters would be dtypes."""
    if not isinstance(given, tuple) or not given:
        names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, list) else ()
        raise DeclarationError(f"{field}: write a tuple, {names or ('f32',)}, in place of {given!r}")


def _check_extents(field: str, given: object, least: int) -> None:
    """Raise DeclarationError unless the value maps dimensions to whole numbers of at least `least`."""
    if not isinstance(given, Mapping) or not all(type(size) is int and size >= least for size in given.values()):
        raise DeclarationError(f"capabilities.{field}: write numbers by dimension, {{'n': 64}}, in place of {given!r}")


CONTIGUOUS_F32 = Capabilities()
"""The capabilities of a kernel that declares nothing."""


@dataclass(frozen=True)
class Capability:
    """All that generation needs to know about kernels of one op with the same capabilities."""

    op: str
    able: Capabilities
    shares_memory: bool = True
    """Whether strides may be negative, two inputs may be the same memory, an output may overlap an input in part, and
    storages may be sparse. torch does not allow these."""
    takes_threads: bool = False
    """Whether the kernel can be told how many threads to use, as torch can."""
    stray: tuple[str, ...] = ()
    """Inputs of places that are also drawn with values outside their dimension, as kernels promise to reject these."""

    def __hash__(self) -> int:
        return self._hash

    @lazy
    def _hash(self) -> int:
        # The hash is kept, since it is needed for every case and capabilities have many fields.
        return hash((self.op, self.able, self.shares_memory, self.takes_threads, self.stray))

    @lazy
    def _untaken(self) -> frozenset[str]:
        """Return the optional tensors that are never present."""
        return frozenset(OPS[self.op].optional) - {*self.able.optional}

    @lazy
    def empty(self) -> bool:
        """Whether cases without elements are drawn. They never are for an op with places along a dimension."""
        return self.able.empty is not False and not OPS[self.op].counted

    @lazy
    def _fixed(self) -> Mapping[str, float]:
        """Return the parameters that always have their neutral value, with this value."""
        return {name: value for name, value in OPS[self.op].neutral.items() if name not in (self.able.params or ())}

    def refusal(self, case: Case) -> str | None:
        """Return why `case` is outside the capabilities, in plain words, or None if it is within."""
        foreign = self.foreign(case)
        found = self.invalid(case) if foreign is None else None
        return foreign if found is None else found.reason

    def accepts(self, case: Case) -> bool:
        """Whether `case` is within the capabilities."""
        return self.refusal(case) is None

    def foreign(self, case: Case) -> str | None:
        """Return why the kernel cannot be called with `case` at all, or None. It then cannot reject the case either."""
        if case.op != self.op:
            return f"op {case.op}"
        there = case.tensors.keys()
        if not self._untaken.isdisjoint(there):
            return f"{min(self._untaken & there)} is not taken"
        for name in self.able.needs:
            if name not in there:
                return f"{name} is missing"
        for name, value in self._fixed.items():
            if case.params.get(name, value) != value:
                return f"{name} {case.params[name]}"
        if THREADS in case.params and not self.takes_threads:
            return counted(int(case.params[THREADS]), "thread")
        if PROBE in case.params and self.shares_memory:  # the worker of a C kernel makes calls in one way only
            return "a probe"
        if not self.shares_memory and not case.apart:
            return "tensors that share memory"
        for name, tensor in case.tensors.items():
            if len(tensor.layout.shape) > MAX_RANK:
                return f"{name}: rank {len(tensor.layout.shape)}"
            if not self.shares_memory and min(tensor.layout.strides, default=0) < 0:
                return f"{name}: strides {tensor.layout.strides}"
        strays = stray_places(case) if OPS[self.op].integers else {}
        return next((f"{name}: {said}" for name, said in strays.items() if name not in self._borne), None)

    @lazy
    def _borne(self) -> frozenset[str]:
        """Return the inputs of places that may have values outside their dimension. With such a value in another input,
        the kernel would read outside a tensor."""
        return frozenset((*self.able.checks, *self.stray))

    def is_dispatched(self, case: Case) -> bool:
        """Whether `case` is to be run: it is within the capabilities, or the kernel promises to reject it. An empty
        case that should be rejected is not run if the kernel takes empty tensors: a kernel that returns at once,
        without a look at the rest, does no harm."""
        if self.foreign(case) is not None:
            return False
        found = self.invalid(case)
        if found is None:
            return True
        rejects = self.able.outside == "rejects" or found == self._stray_refusal(case)
        return rejects and not (self.able.empty is not False and _is_empty(case))

    def invalid(self, case: Case) -> Refusal | None:
        """Return why `case`, which is not foreign, must be rejected, or None."""
        for output, source, relation in case.meetings():
            if (output, source) not in (self.able.aliases if relation == "same" else self.able.overlap):
                how = f"{output} {'in the memory of' if relation == 'same' else 'overlapping'} {source}"
                return Refusal(how, how)
        if self.able.empty is False and _is_empty(case):
            return Refusal("no elements", "no elements")
        dtypes = {name: tensor.dtype for name, tensor in case.tensors.items()}
        for name, tensor in case.tensors.items():
            if tensor.dtype not in self.dtypes_of(name, dtypes):
                return Refusal(f"dtype of {name}", f"{name}: dtype {tensor.dtype}")
            found = self._layout_refusal(name, tensor)
            if found is not None:
                return found
        main = OPS[self.op].main
        shape = case.inputs[main].layout.shape
        axis = int(case.params.get(AXIS, -1)) % max(len(shape), 1)
        if self.able.axis == "last" and axis != len(shape) - 1:
            return Refusal(f"axis of {main}", f"{main}: axis is not the last")
        if shape and (self.able.max or self.able.multiple_of):
            found = self._extent_refusal(Frame(case))
            if found is not None:
                return found
        return self._stray_refusal(case)

    def _stray_refusal(self, case: Case) -> Refusal | None:
        strays = stray_places(case) if self.able.checks else {}
        found = (
            Refusal(f"place in {name}", f"{name}: {said}") for name, said in strays.items() if name not in self.stray
        )
        return next(found, None)

    def _extent_refusal(self, frame: Frame) -> Refusal | None:
        for dim, size in frame.sizes.items():
            most, step = self.able.max.get(dim), self.step(dim)
            if most is not None and size > most:
                return Refusal(dim, f"{dim} = {size}, more than {most}")
            if size % step:
                return Refusal(dim, f"{dim} = {size}, no multiple of {step}")
        return None

    def takes(self, dim: str, size: int) -> bool:
        """Whether a dimension may have this extent."""
        op = OPS[self.op]
        if op.fixed.get(dim, size) != size or size % self.step(dim) or (size == 0 and not self.empty):
            return False
        return size <= self.able.max.get(dim, size) and op.whole({dim: size}) is not None

    def step(self, dim: str) -> int:
        """Return the number that the extent of a dimension must be a multiple of."""
        return self.able.multiple_of.get(dim, 1)

    def dtypes_of(self, name: str, there: Mapping[str, str]) -> tuple[str, ...]:
        """Return the dtypes that a tensor may have, given the dtypes `there` of the first input and of the tensor whose
        dtype is the default for this one."""
        main = self._main
        if name == main:
            return self.able.dtypes
        mixed, usual = self._mixed.get(name), self._usual[name]
        if mixed is not None:
            return tuple(there[main] if dtype == main else dtype for dtype in mixed)
        return (usual if usual in ITEMSIZE else there.get(usual) or there[main],)

    @lazy
    def _main(self) -> str:
        return OPS[self.op].main

    @lazy
    def _usual(self) -> Mapping[str, str]:
        return {operand.name: operand.dtype for operand in OPS[self.op].operands}

    @lazy
    def _mixed(self) -> Mapping[str, tuple[str, ...]]:
        return dict(reversed(self.able.mixed))  # the first entry for a tensor counts

    @lazy
    def _accepted(self) -> Mapping[str, tuple[int, int, int]]:
        """Return, by tensor, what the kernel accepts: the highest rank, the index in `Strides` of the loosest kind of
        strides, and the number of bytes to which rows must be aligned."""
        op, able = OPS[self.op], self.able
        loosest, found = get_args(Strides).index(able.strides), dict[str, tuple[int, int, int]]()
        for name in self._usual:
            flat = name in op.columns and name not in able.stacked
            # a kernel cannot be told a pitch for a tensor without rows of its own
            pitched = op.has_rows(name) or able.strides == "any"
            alignment = able.alignment if op.has_rows(name) else 1
            found[name] = 1 if flat else MAX_RANK, loosest if pitched else 0, alignment
        return found

    def _layout_refusal(self, name: str, tensor: Tensor | Output) -> Refusal | None:
        layout, (rank, loosest, alignment) = tensor.layout, self._accepted[name]
        if len(layout.shape) > rank:
            return Refusal(f"rank of {name}", f"{name}: rank {len(layout.shape)}")
        if loosest < _ANY and layout.looseness > loosest:
            return Refusal(f"strides of {name}", f"{name}: strides {layout.strides}")
        if alignment > 1 and not _rows_aligned(layout, ITEMSIZE[tensor.dtype], alignment):
            return Refusal(f"alignment of {name}", f"{name}: rows not aligned to {alignment} bytes")
        return None


def _is_empty(case: Case) -> bool:
    return any(tensor.layout.size == 0 for tensor in case.tensors.values())


def _rows_aligned(layout: Layout, itemsize: int, alignment: int) -> bool:
    outer = zip(layout.shape[:-1], layout.strides[:-1], strict=True)
    pitches = [stride * itemsize for extent, stride in outer if extent > 1]
    return layout.alignment(itemsize) % alignment == 0 and all(pitch % alignment == 0 for pitch in pitches)


def stray_places(case: Case) -> dict[str, str]:
    """Return a sentence about the first wrong value, for each input that has any."""
    op, found = OPS[case.op], dict[str, str]()
    for name in op.integers:
        operand = op.operand(name)
        dim, missing, kind = (
            operand.index,
            operand.missing,
            "places" if not operand.is_bound else operand.values.split()[0],
        )
        if not dim or name not in case.inputs:
            continue
        values = np.frombuffer(case.inputs[name].bits, NUMPY_DTYPE[case.inputs[name].dtype])
        _, highest = operand.span(Frame(case).whole)
        wrong = values[((values < 0) | (values > highest)) & (values != missing)]
        if wrong.size:
            may = f"{kind} along {dim}, which are 0 to {highest}" if highest >= 0 else f"no places: {dim} is empty"
            found[name] = f"{wrong[0]} is none of {may}{'' if missing is None else f', or {missing}'}"
    return found
