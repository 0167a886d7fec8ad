"""Sites on which compiled code is tried: this processor, emulators, and rows of a pack's `targets.toml`."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fuzz.core.adapters.isa import ISAS, Emulator, Settings, architectures
from fuzz.core.adapters.toolchain import Host, Tool
from fuzz.core.base.dispatch import SizeLimit
from fuzz.core.base.errors import UsageError

FILE = "targets.toml"
TAKEN = ("native", "qemu", "wasm", "interpret", "cpu", "cuda")
"""Names of sites that exist without a `targets.toml`."""
_SITE = re.compile(r"[a-z][a-z0-9+-]*")
_KEYS = ("prefix", "flags", "package", "seconds", "arch", "settings")
_SECONDS = 5.0


class OwnTargetError(UsageError):
    """A `targets.toml` that cannot be read. The message names the file, the row and the error."""


@dataclass(frozen=True)
class OwnTarget:
    """A further way to run kernels in C and in libraries: under a program, with compiler flags, or both."""

    site: str
    """The name of the site in the ids of targets, such as 'valgrind' in c-mine@valgrind:gcc-O2."""
    prefix: tuple[str, ...] = ()
    """The program that starts the worker, with its arguments. The worker's command follows."""
    flags: tuple[str, ...] = ()
    """Flags for compiling and linking the kernel. They follow its own flags."""
    package: str = ""
    """The Debian package that has the program."""
    seconds: float = _SECONDS
    """The time limit of a case in seconds."""
    arch: str = ""
    """The architecture of another machine, on which the program runs a command; '' if it runs the worker here."""
    settings: Mapping[str, int | str] = field(default_factory=dict, hash=False)
    """The other machine's values of the settings that instruction sets leave open, by the settings' words."""

    @property
    def remote(self) -> bool:
        """Whether the site is another machine, to which the worker is sent."""
        return bool(self.arch)

    @property
    def reserves(self) -> bool:
        """Whether a sanitizer reserves terabytes for its shadow memory, so that memory cannot be limited."""
        return any(re.match(r"-fsanitize=.*(address|thread|memory)", flag) for flag in self.flags)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The program that starts the worker, such as an emulator, if the site has one."""
        return tuple(Tool(name, self.package, shutil.which(name)) for name in self.prefix[:1])


def own_targets(folder: Path) -> tuple[OwnTarget, ...]:
    """Return the rows of a pack's `targets.toml`, or () if there is no such file. Raise OwnTargetError."""
    path = folder / FILE
    if not path.is_file():
        return ()
    try:
        rows = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, RecursionError, ValueError) as error:  # includes TOMLDecodeError and UnicodeDecodeError
        raise OwnTargetError(f"{path}: {error}") from error
    return tuple(_row(folder, site, row, f"{path}: {site}") for site, row in rows.items())


def _row(folder: Path, site: str, row: object, where: str) -> OwnTarget:
    if not isinstance(row, Mapping):
        raise OwnTargetError(f"{where}: each row is a table, [valgrind]")
    if not _SITE.fullmatch(site) or site in TAKEN:
        raise OwnTargetError(f"{where}: a site is small letters, digits, + and -, and not {', '.join(TAKEN)}")
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
    if prefix and "/" in prefix[0]:  # relative to the pack's folder
        prefix = (str((folder / prefix[0]).absolute()), *prefix[1:])
    return OwnTarget(site, prefix, flags, package, float(seconds), arch, dict(settings))


def _one_of(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _words(row: Mapping[str, object], key: str, where: str) -> tuple[str, ...]:
    words = row.get(key, [])
    if not isinstance(words, list) or not all(isinstance(word, str) and word and "\0" not in word for word in words):
        raise OwnTargetError(f'{where}: {key}: write a list of words, ["valgrind", "-q"], not {words!r}')
    return tuple(words)


_CASE_LIMIT_S = 5.0
_FEW = 1 << 9
"""The largest number of elements of a case under an emulator that is slow to spill vectors to memory. Longer rows show
nothing that they do not show in optimised code too."""


@dataclass(frozen=True)
class Site:
    """A site on which code is tried: an architecture, its emulator and settings, and the pack's row if there is one."""

    arch: str
    emulator: Emulator | None = None
    settings: Settings = ()
    own: OwnTarget | None = None
    spills_slowly: bool = False
    """Whether the emulator takes long for code without optimisation."""

    @property
    def name(self) -> str:
        """The name of the site in the ids of targets."""
        if self.own is not None:
            return self.own.site
        return "native" if self.emulator is None else self.emulator.site

    @property
    def told(self) -> tuple[tuple[str, str], ...]:
        """The settings as the ids of targets have them."""
        return tuple((setting.word, str(value)) for setting, value in self.settings)

    @property
    def traits(self) -> tuple[tuple[str, str | int], ...]:
        """The properties of the site that may be the cause of a failure."""
        own: tuple[tuple[str, str], ...] = () if self.own is None else (("own target", self.own.site),)
        return (
            ("processor", f"{'native' if self.emulator is None else 'emulated'} {self.arch}"),
            *((setting.trait, value) for setting, value in self.settings),
            *own,
        )

    @property
    def flags(self) -> tuple[str, ...]:
        """The compiler flags that follow the kernel's own."""
        return () if self.own is None else self.own.flags

    @property
    def case_limit(self) -> float:
        """The time limit of a case in seconds."""
        return _CASE_LIMIT_S if self.own is None else self.own.seconds

    def size_limit(self, opt: str) -> SizeLimit | None:
        """Return the limits of cases that are sent to this site, or None. Emulated code is slow, as is code without
        optimisation. Code that is both takes several microseconds for each row."""
        if self.spills_slowly and opt == "O0":
            return SizeLimit(_FEW, _FEW)
        if self.emulator is not None or self.own is not None:
            return SizeLimit(1 << 20, 1 << (17 if opt == "O2" else 15))
        return SizeLimit(1 << 22, 1 << 20, far=True) if opt == "O0" else None


def sites(isa: str, beside: Sequence[OwnTarget], host: Host) -> Iterator[Site]:
    """Yield the sites for code of an instruction set: this machine, emulators, and the pack's own rows. Sites on which
    the code cannot run are included."""
    row = ISAS[isa]
    elsewhere = [arch for arch in architectures() if arch != host.arch] if row.emulator is not None else []
    for arch in (row.arch,) if row.arch is not None else (host.arch, *elsewhere):
        native = arch == host.arch
        if native or row.emulator is None:  # a site elsewhere without an emulator reports why it cannot run
            here = host.settings if native else {}
            plain = Site(arch, settings=tuple((each, here[each.word]) for each in row.settings if each.word in here))
            yield plain
            if native:
                yield from (replace(plain, own=each) for each in beside if not each.remote)
        if row.emulator is not None and (row.emulated_here or not native):
            yield from (Site(arch, row.emulator, each, spills_slowly=row.spills_slowly) for each in row.combinations)
    for each in beside:
        if each.remote and row.arch in (None, each.arch):
            known = tuple((it, each.settings[it.word]) for it in row.settings if it.word in each.settings)
            yield Site(each.arch, settings=known, own=each)
