"""How the worker of a C kernel is built: its sources are compiled one by one, and linked with its libraries."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fuzz.core.adapters import abi, build, linking, toolchain
from fuzz.core.adapters.c_kernel import CKernel, c_kernel, language_of
from fuzz.core.adapters.linking import Library
from fuzz.core.adapters.target import Target
from fuzz.core.adapters.toolchain import Tool
from oracles.ops import OPS

_OBJECT = ".o"
_EXPORTED = build.NATIVE / "dynamic" / "malloc.c"
_HAS_MALLOC = re.compile(r"-fsanitize=.*(address|leak|memory|thread)")
_USUAL = "gcc"
"""The compiler for targets that do not name one, since their results do not depend on it."""


@dataclass(frozen=True)
class Unit:
    """One source file: its text, the kernel's files that it includes, and how it is compiled."""

    path: Path
    text: str
    included: Mapping[Path, str]
    tool: Tool
    words: tuple[str, ...]
    """The compiler options: the language standard, and a header that is included though the source does not name it."""


def own_headers(kernel: CKernel, path: Path, text: str) -> dict[Path, str]:
    """Return the kernel's own files that a source includes, with their texts, without the worker's headers."""
    found = build.included_files(kernel, path, text, kernel.include)
    return {each: text for each, text in found.items() if not each.is_relative_to(build.NATIVE)}


def compiler_of(target: Target, language: str = "c") -> Tool:
    """Return the compiler that builds the target's sources in a language."""
    assert target.host is not None
    return toolchain.compiler(target.name.compiler or _USUAL, target.arch, target.host, language)


def compilers_of(target: Target) -> tuple[Tool, ...]:
    """Return the compilers of the target: one for the worker's C code, and one for C++ if the kernel has any."""
    languages = dict.fromkeys(("c", *map(language_of, c_kernel(target.kernel).written)))
    return tuple(compiler_of(target, language) for language in languages)


def linker_of(target: Target) -> Tool:
    """Return the compiler that links: the C++ compiler if any source is C++."""
    return compilers_of(target)[-1]


def is_static(target: Target) -> bool:
    """Return whether the worker is linked statically into one file."""
    return (target.emulated or target.remote) and not c_kernel(target.kernel).loads


def runtime_of(target: Target) -> list[str]:
    """Return the linker's arguments for C's own libraries, which come last."""
    links_by = toolchain.COMPILERS[target.name.compiler or _USUAL].links_by
    return ["-lm", *links_by, *(["-ldl"] if c_kernel(target.kernel).loads else [])]


@dataclass(frozen=True)
class Build:
    """All inputs of the build of a worker, as they were read. Raise BuildError if a file cannot be read."""

    target: Target

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        kernel = c_kernel(self.target.kernel)
        return tuple(self._unit(kernel, path, text) for path, text in build.edited_sources(kernel).items())

    def _unit(self, kernel: CKernel, path: Path, text: str) -> Unit:
        included, language = own_headers(kernel, path, text), language_of(path)
        # A source that does not include the signature of the entry is compiled with it nevertheless, since C would
        # accept any call.
        known = abi.is_known(OPS[kernel.op], [text, *included.values()])
        unseen = not known and (path == kernel.source or f"kf_{kernel.op}" in text)
        words = (f"-std={kernel.standard_of(language)}", *(("-include", abi.HEADER) if unseen else ()))
        return Unit(path, text, included, compiler_of(self.target, language), words)

    @cached_property
    def texts(self) -> dict[Path, str]:
        """The text of each of the kernel's files, by path."""
        included = {path: text for unit in self.units for path, text in unit.included.items()}
        return {**included, **{build.plain_path(unit.path): unit.text for unit in self.units}}

    @cached_property
    def header(self) -> str:
        """The text of `kernelfuzz.h` for the kernel's sources."""
        return abi.header(abi.named_ops(OPS[self.target.kernel.op], self.texts.values()))

    @cached_property
    def libraries(self) -> list[Library | str]:
        """The libraries that are linked after the objects."""
        kernel = c_kernel(self.target.kernel)
        return linking.linked(kernel.libraries, kernel.binaries, linker_of(self.target))

    @property
    def files(self) -> list[Library]:
        """The libraries that are files, including those that are loaded at run time."""
        kernel = c_kernel(self.target.kernel)
        loaded = [linking.library(each, kernel.binaries) for each in kernel.loads]
        return [*(each for each in self.libraries if isinstance(each, Library)), *loaded]

    @property
    def linked(self) -> list[str]:
        """The arguments that name the libraries to the linker."""
        return [word for each in self.libraries for word in ([each] if isinstance(each, str) else each.words)]

    @property
    def exported(self) -> Path | None:
        """The source of the library that fills memory allocated by shared libraries. None if there are no such
        libraries, or if a sanitizer has its own malloc."""
        wanted = any(each.shared for each in self.files) and not is_static(self.target)
        sanitized = any(map(_HAS_MALLOC.match, self.target.flags))
        return _EXPORTED if wanted and not sanitized else None

    def digest(self, parts: str) -> str:
        """Return the digest of everything that is compiled and linked, including the worker's `parts`."""
        target, linker = self.target, linker_of(self.target)
        tools = [tool.version for tool in compilers_of(target)]
        units = [(each.words, each.text, [text for _, text in sorted(each.included.items())]) for each in self.units]
        # at run time, a shared library is looked up in the folder where it was linked
        places = [each.words for each in self.files if each.shared]
        libraries = linking.digests([*self.libraries, *self.files], linker, static=is_static(target))
        described = [
            target.kernel.op,
            target.flags,
            is_static(target),
            linking.WRAPPED,
            "" if self.exported is None else self.exported.read_text(encoding="utf-8"),
            tools,
            parts,
            self.header,
            units,
        ]
        return build.digest_of([*described, list(libraries.values()), places])

    def commands(self, output: Path, digest: str, parts: Sequence[Path]) -> Iterator[list[str]]:
        """Yield the commands that build the executable. They compile copies of the texts, laid out as in the pack,
        since a file may have been saved again after it was read."""
        root, own = output.parent / build.COPIES, output.parent / "include"
        own.mkdir()
        (own / abi.HEADER).write_text(self.header, encoding="utf-8")
        for path, text in self.texts.items():
            below(root, path).parent.mkdir(parents=True, exist_ok=True)
            below(root, path).write_text(text, encoding="utf-8")
        for each in self.files:
            if each.changed:
                raise build.BuildError(f"{each.path} is not what it was when the session began")
        objects = [output.with_name(f"{number}-{unit.path.name}{_OBJECT}") for number, unit in enumerate(self.units)]
        flags = self.target.flags
        for unit, compiled in zip(self.units, objects, strict=True):
            identity = self._identity(digest) if unit is self.units[0] else []
            yield [
                *unit.tool.command, *unit.words[:1], *flags, *identity, *self._includes(unit, root, own),
                *unit.words[1:], "-c", str(below(root, build.plain_path(unit.path))), "-o", str(compiled),
            ]  # fmt: skip
        exported = [] if self.exported is None else ["-x", "c", str(self.exported), "-x", "none"]
        yield [
            *linker_of(self.target).command, *flags, *map(str, (*objects, *parts)), *exported,
            *linking.WRAPPED, *(["-static"] if is_static(self.target) else []), *self.linked, *runtime_of(self.target),
            "-o", str(output),
        ]  # fmt: skip

    def _identity(self, digest: str) -> list[str]:
        flags = json.dumps(" ".join(self.target.flags))
        known = [f"-DKF_FLAGS={flags}", f"-DKF_DIGEST={json.dumps(digest)}", build.machine(self.target.arch)]
        return [*known, "-include", str(build.NATIVE / "identity.h")]

    def _includes(self, unit: Unit, root: Path, own: Path) -> list[str]:
        folder = build.plain_path(unit.path).parent
        quoted = [word for place in (below(root, folder), folder) for word in ("-iquote", str(place))]
        folders = [build.plain_path(each) for each in c_kernel(self.target.kernel).include]
        named = [f"-I{place}" for each in folders for place in (below(root, each), each)]
        return [*quoted, f"-I{own}", *named, f"-ffile-prefix-map={root}="]


def below(root: Path, path: Path) -> Path:
    """Return the path of a file's copy below another root."""
    return root / path.relative_to(path.anchor)
