"""Kernels in C and C++, as their authors declare them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fuzz.core.adapters.configured import settings_of
from fuzz.core.adapters.isa import ISAS
from fuzz.core.adapters.linking import Library
from fuzz.core.adapters.sites import OwnTarget
from fuzz.core.adapters.target import Configuration
from fuzz.core.base.capability import CONTIGUOUS_F32, Capabilities, DeclarationError, one_of
from fuzz.core.base.kernel import PLAIN, Kernel
from oracles.formula.contract import Contract

LANGUAGES: Mapping[str, str] = {".c": "c", ".cc": "c++", ".cpp": "c++", ".cxx": "c++"}
"""The language of a source, by its suffix."""
STANDARDS: Mapping[str, str] = {"c": "gnu11", "c++": "gnu++17"}
"""The standard of each language, for kernels that name none."""
_STANDARD = re.compile(r"(?:c|gnu|iso\d+:)(\+\+)?\w+")
_NOWHERE = Path()
"""The `source` of a kernel that declares only `sources`."""


class CompiledKernel(Kernel):
    """A kernel whose worker is built by a compiler."""

    @property
    def compiled(self) -> CKernel:
        """The C kernel that is compiled: this kernel, or a shim that calls it."""
        raise NotImplementedError


@dataclass(frozen=True)
class CKernel(CompiledKernel):
    """A kernel written against `kernelfuzz.h`, in C or C++, or a shim in C that calls a library."""

    name: str
    op: str
    source: Path = _NOWHERE
    """The file that defines the entry. By default it is the first of `sources`."""
    isa: str = "any"
    """The instruction set that the source needs, by its name in `core/adapters/isa.py`. 'any' is portable C. With
    'runtime' the kernel chooses instructions when it runs, so it is tried on every architecture."""
    contract: Contract = PLAIN
    capabilities: Capabilities = CONTIGUOUS_F32
    flags: tuple[str, ...] = ()
    """The compiler flags with which the kernel is shipped. They follow the flags of the target."""
    configs: Sequence[Mapping[str, str | int] | str | tuple[str, ...]] = ()
    """The configurations that the kernel is built in, each of which is a target of its own: macros, such as ({"TILE":
    8}, {"TILE": 16}), or compiler flags, such as ("-DTILE=8", "-DTILE=8 -funroll-loops"). They follow `flags`."""
    edits: tuple[tuple[str, str], ...] = ()
    laws: tuple[str, ...] = ("rerun",)
    summary: str = ""
    keeps: tuple[str, ...] = ()
    sources: tuple[Path, ...] = ()
    """The files that are compiled, if there are several. Files ending in .c are C; in .cc, .cpp and .cxx, C++."""
    libraries: tuple[Path | str, ...] = ()
    """The libraries that are linked after the objects, in this order: archives and shared libraries by their paths, or
    "-lname". An emulated worker is linked statically, with archives for its architecture."""
    include: tuple[Path, ...] = ()
    """The folders in which headers are looked up."""
    standard: str = ""
    """The language standard, such as 'c++20' or 'c99'. By default it is gnu11 or gnu++17."""
    untrusted: bool = False
    """Whether the kernel's workers run in a sandbox, because nobody vouches for it."""
    fetch: str = ""
    beside: tuple[OwnTarget, ...] = ()
    """Further ways to run the kernel, from the `targets.toml` of its pack."""

    def __post_init__(self) -> None:
        for field in ("sources", "libraries", "include"):
            if not isinstance(getattr(self, field), tuple):
                raise DeclarationError(f"{field}: write a tuple, {field}=({getattr(self, field)!r},) - mind the comma")
        for field in ("sources", "include"):
            for path in getattr(self, field):
                if not isinstance(path, Path):
                    raise DeclarationError(f"{field}: write a path, Path(__file__).parent / {str(path)!r}")
        if self.source == _NOWHERE and self.sources:
            object.__setattr__(self, "source", self.sources[0])
        object.__setattr__(self, "configs", tuple(map(_flags_of, self.configs)))
        super().__post_init__()
        one_of("isa", self.isa, tuple(ISAS))
        self._check_files()
        if self.standard and not _STANDARD.fullmatch(self.standard):
            raise DeclarationError(f"standard: {self.standard!r} is no standard of C or C++: write 'c11' or 'c++17'")

    def _check_files(self) -> None:
        if self.source == _NOWHERE:
            raise DeclarationError(f"source: name the file that defines kf_{self.op}, or several with sources=(...)")
        for path in self.written:
            if path.suffix not in LANGUAGES:
                raise DeclarationError(
                    f"source: {path.name} is no file of C or C++, which are called {', '.join(LANGUAGES)}; "
                    "what is compiled already is for libraries=(...), and a source calls it"
                )
        for each in self.libraries:
            if not isinstance(each, Path) and not (isinstance(each, str) and re.fullmatch(r"-l\S+", each)):
                raise DeclarationError(f'libraries: write a path, Path(__file__).parent / {str(each)!r}, or "-lname"')

    @property
    def kind(self) -> str:
        return "c"

    @property
    def adapter(self) -> str:
        return ISAS[self.isa].adapter

    @property
    def compiled(self) -> CKernel:
        return self

    @property
    def configurations(self) -> tuple[tuple[Configuration, tuple[str, ...]], ...]:
        """The configurations that the kernel is built in, with their flags."""
        flags = [tuple(each) for each in self.configs]
        every = map(Configuration, settings_of([*map(_macros_of, flags)]))
        return tuple(zip(every, flags, strict=True)) or ((Configuration(), ()),)

    @property
    def loads(self) -> tuple[Path, ...]:
        """The shared libraries that the kernel loads at run time. A worker that loads any is linked dynamically."""
        return ()

    @property
    def sysroot(self) -> Path | None:
        """The folder with the system libraries of another architecture, for libraries that the kernel loads; None for
        the compiler's own folder."""
        return None

    @property
    def written(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys((self.source, *self.sources)))

    @property
    def paths(self) -> Iterator[tuple[str, Path]]:
        yield "source", self.source
        for field in ("sources", "libraries", "include"):
            yield from ((field, path) for path in getattr(self, field) if isinstance(path, Path))

    @cached_property
    def binaries(self) -> dict[Path, Library]:
        """The libraries as they were when each was first read, like the sources in `texts`."""
        return {}

    def standard_of(self, language: str) -> str:
        """Return the standard in which the kernel's sources in this language are compiled."""
        named = "c++" if "++" in self.standard else "c"
        return self.standard if self.standard and named == language else STANDARDS[language]


def _flags_of(config: object) -> tuple[str, ...]:
    """Return a configuration as compiler flags. Raises DeclarationError."""
    if isinstance(config, Mapping):
        config = [f"-D{name}={value}" for name, value in config.items()]
    flags = tuple(shlex.split(config)) if isinstance(config, str) else config
    if not isinstance(flags, (tuple, list)) or not all(isinstance(each, str) for each in flags):
        raise DeclarationError(f'configs: {config!r}: write macros, {{"TILE": 8}}, or flags, "-DTILE=8"')
    return tuple(flags)


def _macros_of(flags: Sequence[str]) -> Mapping[str, object]:
    """Return the macros that flags define, with their values, and the other flags unchanged."""
    macros = [each.removeprefix("-D").partition("=") for each in flags if each.startswith("-D")]
    others = "+".join(each for each in flags if not each.startswith("-D"))
    return {**{name: value if sign else 1 for name, sign, value in macros}, **({"flags": others} if others else {})}


def language_of(path: Path) -> str:
    """Return the language of a source."""
    return LANGUAGES[path.suffix]


def c_kernel(kernel: Kernel) -> CKernel:
    """Return the C kernel from which the worker is built: the kernel itself, or the shim that calls it."""
    assert isinstance(kernel, CompiledKernel)
    return kernel.compiled
