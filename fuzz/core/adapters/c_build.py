"""How the worker of a C kernel is built: its sources are compiled one by one, and linked with its libraries."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fuzz.core.adapters import abi, linking, toolchain
from fuzz.core.adapters.build import (
    COPIES,
    NATIVE,
    BuildError,
    digest_of,
    edited_sources,
    included_files,
    machine,
    plain_path,
)
from fuzz.core.adapters.c_kernel import CKernel, c_kernel, language_of
from fuzz.core.adapters.linking import Library
from fuzz.core.adapters.target import Target
from fuzz.core.adapters.toolchain import Tool
from oracles.ops import OPS

_OBJECT = ".o"
_EXPORTED = NATIVE / "dynamic" / "malloc.c"
_HAS_MALLOC = re.compile(r"-fsanitize=.*(address|leak|memory|thread)")
_USUAL = "gcc"
"""The compiler of targets that do not name one, as nothing depends on it."""


@dataclass(frozen=True)
class Unit:
    """A source, with what it includes of the kernel's own and how it is compiled."""

    path: Path
    text: str
    included: Mapping[Path, str]
    tool: Tool
    words: tuple[str, ...]
    """The standard, and what is included without being named."""


def own_headers(kernel: CKernel, path: Path, text: str) -> dict[Path, str]:
    """What a source of that text includes, with texts; ours do not count."""
    found = included_files(kernel, path, text, kernel.include)
    return {each: text for each, text in found.items() if not each.is_relative_to(NATIVE)}


def compiler_of(target: Target, language: str = "c") -> Tool:
    """The compiler that builds the target."""
    assert target.host is not None
    return toolchain.compiler(target.name.compiler or _USUAL, target.arch, target.host, language)


def compilers_of(target: Target) -> tuple[Tool, ...]:
    """The compilers that build the target: that of our own C, and that of its C++."""
    languages = dict.fromkeys(("c", *map(language_of, c_kernel(target.kernel).written)))
    return tuple(compiler_of(target, language) for language in languages)


def linker_of(target: Target) -> Tool:
    """The compiler that links: that of C++ where there is some."""
    return compilers_of(target)[-1]


def is_static(target: Target) -> bool:
    """Whether its worker is one file with all that it needs."""
    return (target.emulated or target.remote) and not c_kernel(target.kernel).loads


def runtime_of(target: Target) -> list[str]:
    """What of C's own is linked last."""
    links_by = toolchain.COMPILERS[target.name.compiler or _USUAL].links_by
    return ["-lm", *links_by, *(["-ldl"] if c_kernel(target.kernel).loads else [])]


@dataclass(frozen=True)
class Build:
    """All that decides a worker, as it was read. Raises BuildError where a file cannot be."""

    target: Target

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        kernel = c_kernel(self.target.kernel)
        return tuple(self._unit(kernel, path, text) for path, text in edited_sources(kernel).items())

    def _unit(self, kernel: CKernel, path: Path, text: str) -> Unit:
        included, language = own_headers(kernel, path, text), language_of(path)
        # Who never read the signature of the entry has it checked all the same: C would call it with anything.
        known = abi.is_known(OPS[kernel.op], [text, *included.values()])
        unseen = not known and (path == kernel.source or f"kf_{kernel.op}" in text)
        words = (f"-std={kernel.standard_of(language)}", *(("-include", abi.HEADER) if unseen else ()))
        return Unit(path, text, included, compiler_of(self.target, language), words)

    @cached_property
    def texts(self) -> dict[Path, str]:
        """Every file of the kernel's, and its text."""
        included = {path: text for unit in self.units for path, text in unit.included.items()}
        return {**included, **{plain_path(unit.path): unit.text for unit in self.units}}

    @cached_property
    def header(self) -> str:
        """`kernelfuzz.h` as its sources see it."""
        return abi.header(abi.named_ops(OPS[self.target.kernel.op], self.texts.values()))

    @cached_property
    def libraries(self) -> list[Library | str]:
        """What is linked behind the objects."""
        kernel = c_kernel(self.target.kernel)
        return linking.linked(kernel.libraries, kernel.binaries, linker_of(self.target))

    @property
    def files(self) -> list[Library]:
        """The libraries that are named by their paths, those that are loaded among them."""
        kernel = c_kernel(self.target.kernel)
        loaded = [linking.library(each, kernel.binaries) for each in kernel.loads]
        return [*(each for each in self.libraries if isinstance(each, Library)), *loaded]

    @property
    def linked(self) -> list[str]:
        """The arguments that name the libraries to the linker."""
        return [word for each in self.libraries for word in ([each] if isinstance(each, str) else each.words)]

    @property
    def exported(self) -> Path | None:
        """The library that fills the memory of shared libraries; None without these, or if a sanitizer has its own
        malloc."""
        wanted = any(each.shared for each in self.files) and not is_static(self.target)
        sanitized = any(map(_HAS_MALLOC.match, self.target.flags))
        return _EXPORTED if wanted and not sanitized else None

    def digest(self, parts: str) -> str:
        """The digest of all that is compiled and linked, the worker's `parts` among it."""
        target, linker = self.target, linker_of(self.target)
        tools = [tool.version for tool in compilers_of(target)]
        units = [(each.words, each.text, [text for _, text in sorted(each.included.items())]) for each in self.units]
        # A shared library is found at run time where it was when it was linked.
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
        return digest_of([*described, list(libraries.values()), places])

    def commands(self, output: Path, digest: str, parts: Sequence[Path]) -> Iterator[list[str]]:
        """What makes the executable: of the texts, where they are to each other as in the pack, since a file may have
        been saved since it was read."""
        root, own = output.parent / COPIES, output.parent / "include"
        own.mkdir()
        (own / abi.HEADER).write_text(self.header, encoding="utf-8")
        for path, text in self.texts.items():
            below(root, path).parent.mkdir(parents=True, exist_ok=True)
            below(root, path).write_text(text, encoding="utf-8")
        for each in self.files:
            if each.changed:
                raise BuildError(f"{each.path} is not what it was when the run began")
        objects = [output.with_name(f"{number}-{unit.path.name}{_OBJECT}") for number, unit in enumerate(self.units)]
        flags = self.target.flags
        for unit, compiled in zip(self.units, objects, strict=True):
            identity = self._identity(digest) if unit is self.units[0] else []
            yield [
                *unit.tool.command, *unit.words[:1], *flags, *identity, *self._includes(unit, root, own),
                *unit.words[1:], "-c", str(below(root, plain_path(unit.path))), "-o", str(compiled),
            ]  # fmt: skip
        exported = [] if self.exported is None else ["-x", "c", str(self.exported), "-x", "none"]
        yield [
            *linker_of(self.target).command, *flags, *map(str, (*objects, *parts)), *exported,
            *linking.WRAPPED, *(["-static"] if is_static(self.target) else []), *self.linked, *runtime_of(self.target),
            "-o", str(output),
        ]  # fmt: skip

    def _identity(self, digest: str) -> list[str]:
        flags = json.dumps(" ".join(self.target.flags))
        known = [f"-DKF_FLAGS={flags}", f"-DKF_DIGEST={json.dumps(digest)}", machine(self.target.arch)]
        return [*known, "-include", str(NATIVE / "identity.h")]

    def _includes(self, unit: Unit, root: Path, own: Path) -> list[str]:
        folder = plain_path(unit.path).parent
        quoted = [word for place in (below(root, folder), folder) for word in ("-iquote", str(place))]
        folders = [plain_path(each) for each in c_kernel(self.target.kernel).include]
        named = [f"-I{place}" for each in folders for place in (below(root, each), each)]
        return [*quoted, f"-I{own}", *named, f"-ffile-prefix-map={root}="]


def below(root: Path, path: Path) -> Path:
    """The place of a file, or of its copy, below another root."""
    return root / path.relative_to(path.anchor)
