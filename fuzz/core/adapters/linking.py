"""Libraries that C kernels are linked with: archives and shared libraries, given by their files or by their names."""

from __future__ import annotations

import hashlib
import struct
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from fuzz.core.adapters.build import BuildError
from fuzz.core.adapters.toolchain import Tool

_ELF, _ARCHIVE = b"\x7fELF", b"!<arch>\n"
_HEADER_BYTES = 64
"""The size of an ELF header in bytes."""
_SHARED = 3
"""The type of an ELF file that is a shared library (ET_DYN)."""
WRAPPED = tuple(
    f"-Wl,--wrap={name}" for name in ("malloc", "realloc", "aligned_alloc", "posix_memalign", "_Znwm", "_Znam")
)
"""The linker's options that replace functions which give memory to a kernel, so that they also fill it; see
`native/poison.c`."""
_START = "crt1.o"
"""A file of every C library. Its format shows for which machine a compiler links."""


_STATIC = "and what is emulated or sent elsewhere is linked statically"


@dataclass(frozen=True)
class Library:
    """A file that is linked, as it was when it was first read."""

    path: Path
    digest: str
    stamp: tuple[int, int]
    """The size of the file in bytes, and its time of modification in nanoseconds."""
    machine: bytes
    """The class, the byte order and the machine of the code, as in an ELF header."""
    shared: bool

    @property
    def words(self) -> tuple[str, ...]:
        """The linker's arguments for this library. A shared library is looked up at run time in its present folder,
        even if only another library needs it."""
        if not self.shared:
            return (str(self.path),)
        folder = str(self.path.parent)
        return "-Xlinker", "--no-as-needed", str(self.path), "-Xlinker", "-rpath", "-Xlinker", folder

    @property
    def changed(self) -> bool:
        """Whether the file differs from what was read."""
        try:
            return _stamp(self.path) != self.stamp
        except OSError:
            return True


def library(path: Path, known: dict[Path, Library]) -> Library:
    """Return the library in a file, which is read unless it is known. Raise BuildError."""
    if path not in known:
        try:
            known[path] = _read(path.absolute())
        except OSError as error:
            raise BuildError(f"cannot read {path}: {error.strerror}") from error
    return known[path]


def linked(libraries: Sequence[Path | str], known: dict[Path, Library], tool: Tool) -> list[Library | str]:
    """Return the libraries that a compiler links: files if they are for its machine, and names. Raise BuildError."""
    wanted = _machine(tool.command) if any(isinstance(each, Path) for each in libraries) else b""
    files = [library(each, known) if isinstance(each, Path) else each for each in libraries]
    return [each for each in files if isinstance(each, str) or wanted in (b"", each.machine)]


def unusable(
    libraries: Sequence[Path | str], known: dict[Path, Library], tool: Tool, arch: str, *, static: bool
) -> str | None:
    """Return in one line why a target cannot be linked with these libraries, or None if it can. Raise BuildError."""
    files = [each for each in libraries if isinstance(each, Path)]
    found = linked(libraries, known, tool)
    if files and not any(isinstance(each, Library) for each in found):
        return f"{files[0].name} is not for {arch}: name a library that is"
    for each in found:
        if static and isinstance(each, Library) and each.shared:
            return f"{each.path.name} is a shared library, {_STATIC}: name an archive"
        if isinstance(each, str) and file_of(each, tool, static=static) is None:
            names = " nor ".join(_file_names(each, static))
            how = f", {_STATIC}" if static else ": name it by its path"
            return f"{tool.name} finds no {names}{how}"
    return None


def file_of(name: str, tool: Tool, *, static: bool) -> Path | None:
    """Return the file that `-lname` means to a compiler, or None if it finds none."""
    return next((path for each in _file_names(name, static) if (path := _found(tool.command, each)) is not None), None)


def digests(found: Sequence[Library | str], tool: Tool, *, static: bool) -> Mapping[str, str]:
    """Return the digest of each library's file, by the library's name."""
    paths = {each: file_of(each, tool, static=static) for each in found if isinstance(each, str)}
    named = {name: _digest(path) if path is not None else "" for name, path in paths.items()}
    return {**named, **{str(each.path): each.digest for each in found if isinstance(each, Library)}}


def _file_names(name: str, static: bool) -> tuple[str, ...]:
    """Return the file names that a linker looks for."""
    plain = name.removeprefix("-l")
    if plain.startswith(":"):
        return (plain[1:],)
    return (f"lib{plain}.a",) if static else (f"lib{plain}.so", f"lib{plain}.a")


def sysroot(tool: Tool) -> Path | None:
    """Return the root folder of another architecture's system, as its compiler finds it, or None if unknown."""
    start = _found(tool.command, _START)
    return None if start is None else start.resolve().parents[1]


@lru_cache(maxsize=256)
def _found(command: tuple[str, ...], name: str) -> Path | None:
    """Return the path at which a compiler finds a file of its libraries, or None."""
    answer = subprocess.run([*command, f"-print-file-name={name}"], capture_output=True, text=True, check=False)
    path = Path(answer.stdout.strip())
    return path if path.is_absolute() and path.is_file() else None


@lru_cache(maxsize=16)
def _machine(command: tuple[str, ...]) -> bytes:
    """Return the machine for which a compiler links, from its start files, or b"" if unknown."""
    path = _found(command, _START)
    return b"" if path is None else _read(path).machine


def _read(path: Path) -> Library:
    stamp, header = _stamp(path), _header(path)
    if header is None:
        raise BuildError(f"{path} is no library: neither an archive nor a shared library of ELF")
    kind = int(struct.unpack_from("<H", header, 16)[0])
    return Library(path, _digest(path), stamp, header[4:6] + header[18:20], kind == _SHARED)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _header(path: Path) -> bytes | None:
    """Return the ELF header of a file, or of the first object in an archive, or None if there is none."""
    with path.open("rb") as file:
        start = file.read(_HEADER_BYTES)
        if not start.startswith(_ARCHIVE):
            return start if start.startswith(_ELF) and len(start) == _HEADER_BYTES else None
        place = len(_ARCHIVE)
        # Each member starts at an even offset with a header of 60 bytes, which ends with its size.
        while True:
            file.seek(place)
            member = file.read(60)
            size = member[48:58].strip()
            if len(member) < 60 or not size.isdigit():
                return None
            content = file.read(min(_HEADER_BYTES, int(size)))
            if content.startswith(_ELF) and len(content) == _HEADER_BYTES:
                return content
            place += 60 + int(size) + int(size) % 2
