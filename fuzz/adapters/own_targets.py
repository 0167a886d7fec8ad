"""Targets of a pack's own: the rows of `targets.toml` beside its `pack.py`."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fuzz.adapters.isa import architectures
from fuzz.adapters.toolchain import Tool
from fuzz.base.errors import UsageError

FILE = "targets.toml"
TAKEN = ("native", "qemu", "wasm", "interpret", "cpu", "cuda")
"""The places that targets have without such a file."""
_PLACE = re.compile(r"[a-z][a-z0-9+-]*")
_KEYS = ("prefix", "flags", "package", "seconds", "arch", "settings")
_SECONDS = 5.0


class OwnTargetError(UsageError):
    """A file of targets that says nothing sensible. The message names the file, the row and what is wrong."""


@dataclass(frozen=True)
class OwnTarget:
    """How kernels in C and of libraries are run once more: under a program, with compiler flags, or both."""

    place: str
    """The place as targets' ids say it: 'valgrind' of c-mine@valgrind:gcc-O2."""
    prefix: tuple[str, ...] = ()
    """The program that starts the worker, and its arguments. The worker's command follows them."""
    flags: tuple[str, ...] = ()
    """The flags by which the kernel is compiled and linked, behind its own."""
    package: str = ""
    """The Debian package that has the program."""
    seconds: float = _SECONDS
    """The limit of a case."""
    arch: str = ""
    """The architecture of another machine, where the program runs the one command that it is given; '' where it starts
    what is here."""
    settings: Mapping[str, int | str] = field(default_factory=dict, hash=False)
    """What that machine has of what instruction sets leave open, by the settings' words."""

    @property
    def remote(self) -> bool:
        """Whether it is another machine, to which the worker is sent."""
        return bool(self.arch)

    @property
    def reserves(self) -> bool:
        """Whether a sanitizer reserves terabytes for its shadow, so that memory cannot be limited."""
        return any(re.match(r"-fsanitize=.*(address|thread|memory)", flag) for flag in self.flags)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The program."""
        return tuple(Tool(name, self.package, shutil.which(name)) for name in self.prefix[:1])


def own_targets(folder: Path) -> tuple[OwnTarget, ...]:
    """The rows of a pack's file; none where it has none. Raises OwnTargetError."""
    path = folder / FILE
    if not path.is_file():
        return ()
    try:
        rows = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, RecursionError, ValueError) as error:  # TOMLDecodeError and UnicodeDecodeError among them
        raise OwnTargetError(f"{path}: {error}") from error
    return tuple(_row(folder, place, row, f"{path}: {place}") for place, row in rows.items())


def _row(folder: Path, place: str, row: object, where: str) -> OwnTarget:
    if not isinstance(row, Mapping):
        raise OwnTargetError(f"{where}: each row is a table, [valgrind]")
    if not _PLACE.fullmatch(place) or place in TAKEN:
        raise OwnTargetError(f"{where}: a place is small letters, digits, + and -, and not {', '.join(TAKEN)}")
    unknown = next((key for key in row if key not in _KEYS), None)
    if unknown is not None:
        raise OwnTargetError(f"{where}: {unknown} means nothing; a row has some of {', '.join(_KEYS)}")
    prefix, flags = (_words(row, key, where) for key in ("prefix", "flags"))
    if not prefix and not flags:
        raise OwnTargetError(f'{where}: say how it differs: prefix = ["valgrind", "-q"], or flags = ["-O3"]')
    package, seconds, arch = row.get("package", ""), row.get("seconds", _SECONDS), row.get("arch", "")
    settings = row.get("settings", {})
    if arch not in ("", *architectures()) or (arch and not prefix):
        raise OwnTargetError(f"{where}: arch: it is that of another machine, {_one_of(architectures())}, with a prefix")
    if not isinstance(settings, Mapping) or not all(isinstance(each, (int, str)) for each in settings.values()):
        raise OwnTargetError(f"{where}: settings: write a table, {{ vl = 256 }}, not {settings!r}")
    if settings and not arch:
        raise OwnTargetError(f"{where}: settings: they are those of another machine, whose arch the row says")
    if prefix and Path(prefix[0]).name == "ssh" and not arch:
        raise OwnTargetError(f'{where}: ssh runs it on another machine: say which kind, arch = "aarch64"')
    if not isinstance(package, str):
        raise OwnTargetError(f"{where}: package: write the name of a Debian package, not {package!r}")
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < float("inf"):
        raise OwnTargetError(f"{where}: seconds: write a number above 0, not {seconds!r}")
    if prefix and "/" in prefix[0]:  # a file of the pack's, wherever it is started from
        prefix = (str((folder / prefix[0]).absolute()), *prefix[1:])
    return OwnTarget(place, prefix, flags, package, float(seconds), arch, dict(settings))


def _one_of(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _words(row: Mapping[str, object], key: str, where: str) -> tuple[str, ...]:
    words = row.get(key, [])
    if not isinstance(words, list) or not all(isinstance(word, str) and word and "\0" not in word for word in words):
        raise OwnTargetError(f'{where}: {key}: write a list of words, ["valgrind", "-q"], not {words!r}')
    return tuple(words)
