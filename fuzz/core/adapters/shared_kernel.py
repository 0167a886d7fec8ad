"""Kernels in shared libraries, as their authors declare them: a symbol, and its prototype in C."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from fuzz.core.adapters.build import plain_path
from fuzz.core.adapters.c_kernel import CKernel, CompiledKernel
from fuzz.core.adapters.isa import ISAS
from fuzz.core.adapters.prototyped_kernel import PrototypedKernel
from fuzz.core.adapters.shim import shim
from fuzz.core.adapters.signature import pairs
from fuzz.core.adapters.sites import OwnTarget
from fuzz.core.base.capability import CONTIGUOUS_F32, Capabilities, DeclarationError, Strides, one_of
from fuzz.core.base.kernel import PLAIN
from oracles.formula.contract import Contract


@dataclass(frozen=True)
class SharedKernel(PrototypedKernel, CompiledKernel):
    """A function of a shared library. Its prototype says how to call it. A few lines of C that are generated from the
    prototype call it: once for each row, or once for all rows if an argument is their number."""

    name: str
    op: str
    library: Path | str
    """The path of the library. A relative path starts at the pack's folder."""
    prototype: str
    """The function's declaration in C, such as "void softmax_f32(const float *x, float *y, int n)". Arguments with the
    names of the op's tensors, dimensions and parameters have these meanings."""
    arguments: Mapping[str, str] | tuple[tuple[str, str], ...] = ()
    """The meanings of other arguments, by their names: a tensor, a dimension, "rows" (the number of rows, so that one
    call computes all), "x.stride" (the elements from one row of x to the next), "x.bytes" (the same in bytes), "x.size"
    (the number of elements of x), a parameter, or a number such as "1"."""
    returns: str = ""
    """The meaning of the result: an output, or of an integer 'status' (all but 0 refuses the call) or 'nothing'."""
    isa: str = "runtime"
    """The instruction set that the library needs, by its name in `core/adapters/isa.py`. The kernel then runs at each
    of the instruction set's settings."""
    contract: Contract = PLAIN
    capabilities: Capabilities = CONTIGUOUS_F32
    """The capabilities. Dtypes, layouts and tensors that follow from the prototype need not be declared."""
    before: tuple[Path | str, ...] = ()
    """Libraries that are loaded before this one, for symbols that it lacks."""
    sysroot: Path | None = None
    """The folder with the system libraries that a library for another architecture needs. By default the compiler's."""
    edits: tuple[tuple[str, str], ...] = ()
    laws: tuple[str, ...] = ("rerun",)
    summary: str = ""
    keeps: tuple[str, ...] = ()
    untrusted: bool = False
    """Whether the kernel's workers run in a sandbox, because nobody vouches for it."""
    fetch: str = ""
    beside: tuple[OwnTarget, ...] = ()
    """Further ways to run the kernel, from the `targets.toml` of its pack."""

    def __post_init__(self) -> None:
        for field in ("library", "before"):
            given = getattr(self, field) if field == "before" else (self.library,)
            if not isinstance(given, tuple) or not all(isinstance(each, Path | str) for each in given):
                raise DeclarationError(f"{field}: write a path, or a tuple of paths for before=(...,)")
        object.__setattr__(self, "library", Path(self.library))
        object.__setattr__(self, "before", tuple(Path(each) for each in self.before))
        object.__setattr__(self, "arguments", pairs(self.arguments))
        super().__post_init__()
        one_of("isa", self.isa, tuple(name for name in ISAS if name != "any"))

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

    @property
    def told(self) -> Strides:
        return self.binding.strides

    @cached_property
    def compiled(self) -> CKernel:
        """The shim. To the compiler, it lies beside the library."""
        place = self.source.with_name(f"{self.name}.shim.c")
        # the loader would look up a name without a folder among the system's libraries
        library, *before = (plain_path(Path(each)) for each in (self.library, *self.before))
        found = Shim(
            self.name, self.op, place, self.isa, self.contract, self.able, edits=self.edits, untrusted=self.untrusted,
            loads=(library, *before), sysroot=self.sysroot,
        )  # fmt: skip
        found.texts[place] = shim(self.binding, library, before)
        return found


@dataclass(frozen=True)
class Shim(CKernel):
    """The few lines of C that call a function of a library."""

    loads: tuple[Path, ...] = ()
    sysroot: Path | None = None


def shared_kernel(kernel: object) -> SharedKernel:
    """Return the kernel, which must be a SharedKernel."""
    assert isinstance(kernel, SharedKernel)
    return kernel
