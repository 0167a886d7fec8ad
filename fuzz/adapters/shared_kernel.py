"""Kernels in shared libraries as their authors declare them: a symbol, and its prototype in C."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from fuzz.adapters.binding import Binding, bound
from fuzz.adapters.build import plain_path
from fuzz.adapters.c_kernel import CKernel, CompiledKernel
from fuzz.adapters.isa import ISAS
from fuzz.adapters.own_targets import OwnTarget
from fuzz.adapters.prototype import Prototype, parsed
from fuzz.adapters.shim import shim
from fuzz.adapters.signature import Signature, completed
from fuzz.base.capability import CONTIGUOUS_F32, Capabilities, DeclarationError, Strides, one_of
from fuzz.base.kernel import PLAIN
from oracles.declared import AXIS
from oracles.dtypes import DTYPES
from oracles.formula.contract import Contract
from oracles.ops import OPS

_LAYOUTS = ("contiguous", "pitched", "rows")
"""The layouts that C functions can be told of, each with those before it."""


@dataclass(frozen=True)
class SharedKernel(CompiledKernel):
    """A function of a shared library. Its prototype says how it is called, and a few lines of C that are written from
    that call it: once for each row, or once for all where it is told how many there are."""

    name: str
    op: str
    library: Path | str
    """The library: a path, or one from the folder of the pack."""
    prototype: str
    """The function as C declares it: "void softmax_f32(const float *x, float *y, int n)". Arguments whose names are
    those of the op's tensors, dimensions and parameters are these."""
    arguments: Mapping[str, str] | tuple[tuple[str, str], ...] = ()
    """What other arguments are, by their names: a tensor, a dimension, "rows" (their number, so that one call does
    them all), "x.stride" (the elements from a row of x to the next), "x.bytes" (the same in bytes), "x.size" (all
    elements of x), a parameter, or a number such as "1"."""
    returns: str = ""
    """What it returns: an output, or, of an integer, 'status' (all but 0 refuses the call) or 'nothing'."""
    isa: str = "runtime"
    """The instruction set that it needs, as `fuzz/adapters/isa.py` names it: then it runs at each setting of that."""
    contract: Contract = PLAIN
    """What it promises; of nothing but doubles it is calculated in double where nothing is declared."""
    capabilities: Capabilities = CONTIGUOUS_F32
    """Dtypes, layouts and tensors that the prototype settles need not be declared."""
    before: tuple[Path | str, ...] = ()
    """The libraries that are loaded before it, for what it lacks."""
    sysroot: Path | None = None
    """The folder in which a library of another architecture finds those of its system; by default the compiler's."""
    edits: tuple[tuple[str, str], ...] = ()
    laws: tuple[str, ...] = ("rerun",)
    summary: str = ""
    keeps: tuple[str, ...] = ()
    untrusted: bool = False
    """Nobody vouches for it: its workers run in a sandbox."""
    beside: tuple[OwnTarget, ...] = ()
    """Where else it runs, as the `targets.toml` of its pack says."""

    def __post_init__(self) -> None:
        for field in ("library", "before"):
            given = getattr(self, field) if field == "before" else (self.library,)
            if not isinstance(given, tuple) or not all(isinstance(each, Path | str) for each in given):
                raise DeclarationError(f"{field}: write a path, or a tuple of paths for before=(...,)")
        object.__setattr__(self, "library", Path(self.library))
        object.__setattr__(self, "before", tuple(Path(each) for each in self.before))
        object.__setattr__(self, "arguments", _pairs(self.arguments))
        super().__post_init__()
        one_of("isa", self.isa, tuple(name for name in ISAS if name != "any"))
        pointers = {each.type.word for each in self.function.arguments if each.type.pointer}
        if self.contract == PLAIN and "double" in pointers and "float" not in pointers:
            object.__setattr__(self, "contract", Contract(compute="f64"))

    def check_op(self) -> None:
        super().check_op()
        _check_layout(self.able, self.binding)

    def at(self, folder: Path) -> SharedKernel:
        before = tuple(plain_path(folder / each) for each in self.before)
        return replace(self, library=plain_path(folder / self.library), before=before)

    @property
    def kind(self) -> str:
        return "shared"

    @property
    def source(self) -> Path:  # type: ignore[override]
        return Path(self.library)

    @property
    def written(self) -> tuple[Path, ...]:
        return ()

    @property
    def blamed(self) -> str:
        return f"the library {self.source.name}"

    @property
    def paths(self) -> Iterator[tuple[str, Path]]:
        yield "library", self.source
        yield from (("before", Path(each)) for each in self.before)

    @cached_property
    def function(self) -> Prototype:
        """The function that is called."""
        return parsed(self.prototype)

    @cached_property
    def binding(self) -> Binding:
        """What its arguments mean."""
        return bound(OPS[self.op], self.function, dict(self.arguments), self.returns, self.capabilities)

    @cached_property
    def able(self) -> Capabilities:
        given = self.binding.handed
        declared, op = self.capabilities, OPS[self.op]
        optional = {name: name in (declared.takes or ()) for name in op.optional if name in given}
        told = {name: True for name in op.neutral if name in self.binding.meanings.values()}
        found = completed(declared, op, Signature({**optional, **told}))
        loosest: Strides = self.binding.strides if declared.strides == "contiguous" else declared.strides
        mixed = (*declared.mixed, *self._mixed({name for name, _ in declared.mixed}))
        return replace(found, dtypes=self._dtypes(), strides=loosest, mixed=mixed)

    def _dtypes(self) -> tuple[str, ...]:
        """The dtypes of the first input: its pointer says them, where they are one."""
        declared, argument = self.capabilities.dtypes, self.binding.tensors.get(OPS[self.op].main)
        known = argument.type.dtypes if argument is not None else declared
        if len(known) == 1 and declared == CONTIGUOUS_F32.dtypes:
            return known
        wrong = [dtype for dtype in declared if dtype not in known]
        if argument is not None and wrong:
            raise DeclarationError(
                f"capabilities.dtypes: {argument.name} is {argument.type}, not {wrong[0]}: declare some of "
                f"{', '.join(known)}"
            )
        return declared

    def _mixed(self, declared: set[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The dtypes of other tensors, where their pointers say another one than that of the first input."""
        op, main = OPS[self.op], self._dtypes()
        for name, argument in self.binding.tensors.items():
            operand, known = op.operand(name), argument.type.dtypes
            usual = (operand.dtype,) if operand.dtype in DTYPES else main
            if name != op.main and name not in declared and len(known) == 1 and known != usual:
                yield name, known

    @cached_property
    def compiled(self) -> CKernel:
        """The shim, beside the library as the compiler sees it."""
        place = self.source.with_name(f"{self.name}.shim.c")
        before = tuple(Path(each) for each in self.before)
        found = Shim(
            self.name, self.op, place, self.isa, self.contract, self.able, edits=self.edits, untrusted=self.untrusted,
            loads=(self.source, *before), sysroot=self.sysroot,
        )  # fmt: skip
        found.texts[place] = shim(self.binding, self.source, before)
        return found


@dataclass(frozen=True)
class Shim(CKernel):
    """The few lines of C that call a function of a library."""

    loads: tuple[Path, ...] = ()
    sysroot: Path | None = None


def shared_kernel(kernel: object) -> SharedKernel:
    """The kernel, which is in a shared library."""
    assert isinstance(kernel, SharedKernel)
    return kernel


def _check_layout(able: Capabilities, binding: Binding) -> None:
    """Raise DeclarationError for what the function cannot be told."""
    if able.axis != "last":
        raise DeclarationError(f"capabilities.{AXIS}: {able.axis!r}: a function of C is given rows along the last axis")
    if able.stacked:
        raise DeclarationError(f"capabilities.stacked: {able.stacked[0]!r}: a function of C is given one row of it")
    if able.strides not in _LAYOUTS[: _LAYOUTS.index(binding.strides) + 1]:
        raise DeclarationError(
            f"capabilities.strides: {able.strides!r}: the arguments of {binding.prototype.name} tell it of"
            f" {binding.strides!r} at most"
        )


def _pairs(arguments: object) -> tuple[tuple[str, str], ...]:
    """The arguments as pairs, which have a hash. Raises DeclarationError."""
    try:
        pairs = tuple(sorted(dict(arguments).items()))  # type: ignore[call-overload]
    except (TypeError, ValueError) as error:
        raise DeclarationError('arguments: write {"name": "meaning"}') from error
    if not all(isinstance(word, str) for pair in pairs for word in pair):
        raise DeclarationError('arguments: names and meanings are strings: write {"step": "1"}')
    return pairs
