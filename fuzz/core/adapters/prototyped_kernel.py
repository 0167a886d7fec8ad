"""Kernels that are declared by a prototype in C. Their tensors, dtypes and layouts follow from the prototype."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from fuzz.core.adapters.binding import Binding, Prototype, bound, parsed
from fuzz.core.adapters.signature import Signature, completed
from fuzz.core.base.capability import CONTIGUOUS_F32, Capabilities, DeclarationError, Strides
from fuzz.core.base.kernel import Kernel
from oracles.dtypes import DTYPES, FORMATS
from oracles.operand import AXIS
from oracles.ops import OPS

_LAYOUTS = ("contiguous", "spaced", "pitched", "rows")
"""The strides that arguments of C functions can express. Each includes those before it."""


class PrototypedKernel(Kernel):
    """A kernel that is called by its prototype. Its fields are those of its kind."""

    prototype: str
    arguments: Mapping[str, str] | tuple[tuple[str, str], ...]
    returns: str = ""

    def check_op(self) -> None:
        super().check_op()
        _check_layout(self.able, self.binding, self.told)

    @property
    def told(self) -> Strides:
        """The most general strides that the arguments can express."""
        raise NotImplementedError

    @cached_property
    def function(self) -> Prototype:
        """The function that is called."""
        return parsed(self.prototype)

    @cached_property
    def binding(self) -> Binding:
        """The meaning of each argument."""
        return bound(OPS[self.op], self.function, dict(self.arguments), self.returns, self.capabilities)

    @cached_property
    def able(self) -> Capabilities:
        given = self.binding.handed
        declared, op = self.capabilities, OPS[self.op]
        optional = {name: name in (declared.takes or ()) for name in op.optional if name in given}
        told = {name: True for name in op.neutral if name in self.binding.meanings.values()}
        found = completed(declared, op, Signature({**optional, **told}))
        loosest: Strides = self.told if declared.strides == "contiguous" else declared.strides
        mixed = (*declared.mixed, *self._mixed({name for name, _ in declared.mixed}))
        return replace(found, dtypes=self._dtypes(), strides=loosest, mixed=mixed)

    def _dtypes(self) -> tuple[str, ...]:
        """Return the dtypes of the first input. If its pointer has only one dtype, it need not be declared."""
        declared, argument = self.capabilities.dtypes, self.binding.tensors.get(OPS[self.op].main)
        known = declared if argument is None else tuple(each for each in argument.type.dtypes if each in FORMATS)
        if len(known) == 1 and declared == CONTIGUOUS_F32.dtypes:
            return known
        wrong = [dtype for dtype in declared if dtype not in known]
        if argument is not None and wrong:
            others = f": declare some of {', '.join(known)}" if known else ", nor of any dtype of floats"
            raise DeclarationError(f"capabilities.dtypes: {argument.name} is {argument.type}, not {wrong[0]}{others}")
        return declared

    def _mixed(self, declared: set[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the dtypes of other tensors whose pointers have another dtype than the first input."""
        op, main = OPS[self.op], self._dtypes()
        for name, argument in self.binding.tensors.items():
            operand, known = op.operand(name), argument.type.dtypes
            usual = (operand.dtype,) if operand.dtype in DTYPES else main
            if name != op.main and name not in declared and len(known) == 1 and known != usual:
                yield name, known


def _check_layout(able: Capabilities, binding: Binding, told: Strides) -> None:
    """Raise DeclarationError for layouts that the arguments cannot express."""
    if able.axis != "last":
        raise DeclarationError(f"capabilities.{AXIS}: {able.axis!r}: a function of C is given rows along the last axis")
    if able.stacked:
        raise DeclarationError(f"capabilities.stacked: {able.stacked[0]!r}: a function of C is given one row of it")
    if able.strides not in _LAYOUTS[: _LAYOUTS.index(told) + 1]:
        raise DeclarationError(
            f"capabilities.strides: {able.strides!r}: the arguments of {binding.prototype.name} tell it of"
            f" {told!r} at most"
        )
