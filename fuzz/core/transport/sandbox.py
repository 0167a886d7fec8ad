"""A sandbox for workers of untrusted kernels: what they may see of the machine, and what they may not do. Bubblewrap
makes it: separate namespaces, no network, only files that a worker needs. `docs/containment.md` says how safe it is."""

from __future__ import annotations

import os
import shutil
import signal
import site
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TypeVar

from fuzz.core.base.packages import how

_T = TypeVar("_T")

PROGRAM, PACKAGE = "bwrap", "bubblewrap"
PRIVATE, _SHARED = "/tmp", "/dev/shm"
"""The folders that can be written to. They are empty at first, and removed with the last process."""
_PRIVATE_BYTES, _SHARED_BYTES = 1 << 30, 64 << 20
"""The most bytes in these folders. torch.compile keeps some 100 MB in the first; Docker gives the second as much."""
_SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store", "/etc/alternatives",
    "/etc/ld.so.cache", "/etc/localtime", "/sys/devices/system/cpu", "/sys/devices/system/node",
)  # fmt: skip
"""Programs and libraries, and the files that they read when they start."""
_SOURCES = ("/usr/src", "/usr/local/src")
"""Folders below `_SYSTEM` that are hidden, since people keep checkouts there in containers."""
_DEVICES = ("nvidia*", "dri", "kfd")
_OF_DEVICES = ("/sys/bus", "/sys/class", "/sys/dev", "/sys/devices", "/sys/module")
"""The folders that drivers of GPUs also read."""
_OF_PREFIX = ("bin", "lib", "lib32", "lib64", "libexec", "include", "share", "pyvenv.cfg", "*-linux-gnu")
"""The visible parts of the folder in which a program is installed, which may be a project with its environment."""
_COMPILERS = ("cc", "c++", "gcc", "g++", "clang", "nvcc")
_LIBRARIES = ("numpy", "ml_dtypes", "torch", "triton", "jax")
"""Libraries that may be installed as links to somebody's checkouts."""
_WORKER = ("fuzz/__init__.py", "fuzz/core/__init__.py", "fuzz/core/base", "fuzz/core/transport")
"""The files of this package that a worker imports, in addition to `oracles`."""
_NAMING = ("LD_LIBRARY_PATH", "LD_PRELOAD", "CUDA_HOME", "CUDA_PATH")
"""Variables that name files. These files are made visible."""
_KEPT = (
    "PATH", "LANG", "LC_*", "PYTHONPATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "*_NUM_THREADS", "TRITON_*", "TORCH*",
    "CUDA_*", "NVIDIA_*",
)  # fmt: skip
"""Variables that a worker may have, as globs. Others may hold secrets."""
MOST_PROCESSES = 256
"""The most processes that a worker may start. The compilers of torch and Triton start some ten at a time."""
_MOST_FILES = 100_000
"""The largest number of files in a sandbox. Even an empty file takes 1 KB of memory, and Bubblewrap sets no limit."""
BARE: Mapping[str, str] = {}
"""The environment of the program that makes a sandbox. It is empty because it can be read from inside."""


@dataclass(frozen=True)
class Sandbox:
    """The paths that a worker may read, besides the system's programs and libraries, Python, and this package."""

    readable: tuple[Path, ...] = ()

    def showing(self, *paths: Path) -> Sandbox:
        """Return a sandbox in which these paths are visible, too."""
        return Sandbox(tuple(sorted({*self.readable, *(each.absolute() for each in paths)})))

    def command(self, words: Sequence[str], environment: Mapping[str, str]) -> list[str]:
        """Return the command that starts a worker in the sandbox, from a BARE environment. The worker sees the files
        that its own words name, and those variables of `environment` that `_KEPT` lists."""
        devices = [path for pattern in _DEVICES for path in sorted(map(str, Path("/dev").glob(pattern)))]
        system = (*_SYSTEM, *(_OF_DEVICES if devices else ()))
        hidden = [path for path in _SOURCES if Path(path).is_dir()]
        shown = _without_parts((*self.readable, *_needed(words, environment)), system, hidden)
        return [
            shutil.which(PROGRAM) or PROGRAM, "--unshare-all", "--unshare-user", "--disable-userns",
            "--die-with-parent", "--cap-drop", "ALL", "--hostname", "sandbox",
            *(word for path in system for word in ("--ro-bind-try", path, path)),
            *(word for path in hidden for word in ("--tmpfs", path)),
            "--dev", "/dev", *(word for path in devices for word in ("--dev-bind-try", path, path)),
            "--proc", "/proc", "--size", str(_PRIVATE_BYTES), "--tmpfs", PRIVATE,
            "--size", str(_SHARED_BYTES), "--tmpfs", _SHARED,
            *(word for path in shown for word in ("--ro-bind-try", path, path)),
            *(word for path in (*hidden, "/dev", "/") for word in ("--remount-ro", path)),
            "--chdir", PRIVATE, "--clearenv", *_set(environment), "--", *words,
        ]  # fmt: skip


def _needed(words: Sequence[str], environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield the paths that a worker started with these words needs, wherever they are."""
    package = Path(__file__).resolve().parents[3]
    yield from (package / each for each in _WORKER)
    yield from (each for each in (package / "oracles").iterdir() if each.name != "tests")
    programs = filter(None, map(shutil.which, (*words[:1], *_COMPILERS)))
    homes = {Path(each).parent.parent for path in programs for each in (path, Path(path).resolve())}
    for home in filter(_is_readable, sorted({Path(sys.prefix), Path(sys.base_prefix), *homes} - {Path("/")})):
        yield from (path for name in _OF_PREFIX for path in home.glob(name))
    yield from (Path(each) for each in sys.path if {"site-packages", "dist-packages"} & {*Path(each).parts})
    for name in _LIBRARIES:
        with suppress(ValueError):  # a module made by hand has no spec
            found = find_spec(name)
            yield from map(Path, (found and found.submodule_search_locations) or ())
    named = [path for name in _NAMING for path in environment.get(name, "").replace(":", " ").split()]
    yield from (Path(each) for each in (*words, *named) if each.startswith("/"))


def _without_parts(paths: Sequence[Path], system: Sequence[str], hidden: Sequence[str]) -> list[str]:
    """Return the readable paths, for links also the target, without paths that are inside other visible ones."""
    found = list[str]()
    for path in sorted({each for named in paths for each in (named.absolute(), named.resolve())} - {Path("/")}):
        is_seen = any(map(path.is_relative_to, system)) and not any(map(path.is_relative_to, hidden))
        if not is_seen and not any(map(path.is_relative_to, found)) and _is_readable(path):
            found.append(str(path))
    return found


def _is_readable(path: Path) -> bool:
    return os.access(path, os.R_OK, effective_ids=True)


def outside(below: int, inside: int) -> int:
    """Return the id, outside the sandbox, of the process with number `inside` in it. Process `below` is in the sandbox
    or has started it. Return `below` if there is no such process."""
    return next((pid for pid in _descendants(below) if _number_inside(pid) == inside), below)


def excess(pid: int) -> str:
    """Return a message if a worker and its descendants have too many files or processes in their sandbox, else ''."""
    inner = next((each for each in _descendants(pid) if _number_inside(each)), 0)
    if not inner:
        return ""
    if _files_in(inner) > _MOST_FILES:
        return f"there were more than {_MOST_FILES:,} files in {PRIVATE} and {_SHARED}"
    found = _there(Path(f"/proc/{inner}/root/proc"), "[0-9]*")
    if len(found) <= MOST_PROCESSES:
        return ""
    # Several workers of one folder may share the sandbox. An orphan of a worker becomes a child of the sandbox's first
    # process.
    parents = {int(each.name): int(_status(each).get("PPid", "0")) for each in found}
    below, started = {_number_inside(inner)}, 0
    while new := {each for each, parent in parents.items() if parent in below} - below:
        below |= new
        started += len(new)
    return f"it started more than {MOST_PROCESSES} processes" if started > MOST_PROCESSES else ""


def _files_in(inner: int) -> int:
    """Return the number of files that were made in the sandbox of a process."""
    made = 0
    for folder in (PRIVATE, _SHARED):
        seen = f"/proc/{inner}/root{folder}"
        with suppress(OSError):  # the process has ended
            if Path(seen).stat().st_dev != Path(folder).stat().st_dev:  # else not complete yet
                made += os.statvfs(seen).f_files - os.statvfs(seen).f_ffree
    return made


def end_excess(pid: int) -> None:
    """End the sandbox of a worker that has started other processes or made too many files. Processes could multiply
    faster than they are ended one by one, and files last as long as the sandbox."""
    if _number_inside(pid) and (len([*islice(_descendants(pid), 2)]) > 1 or _files_in(pid) > _MOST_FILES):
        end(pid)


def end(pid: int) -> None:
    """End the sandbox that the process is in or has started, with all its processes."""
    inner = next((each for each in _descendants(pid) if _number_inside(each)), 0)
    while inner and (number := _number_inside(inner)):
        if number == 1:
            with suppress(ProcessLookupError):
                os.kill(inner, signal.SIGKILL)
        inner = int(_status(Path(f"/proc/{inner}")).get("PPid", "0"))


def _number_inside(pid: int) -> int:
    """Return the number that a process has inside its sandbox, or 0 if it is in none or has ended."""
    ids = _status(Path(f"/proc/{pid}")).get("NSpid", "").split()
    return int(ids[-1]) if len(ids) > 1 else 0


def _status(process: Path) -> Mapping[str, str]:
    try:
        lines = (process / "status").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # the process has ended
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _descendants(pid: int) -> Iterator[int]:
    yield pid
    children = list[str]()
    for listed in _there(Path(f"/proc/{pid}/task"), "*/children"):
        with suppress(OSError):
            children += listed.read_text(encoding="ascii").split()
    for child in children:
        yield from _descendants(int(child))


def _there(folder: Path, pattern: str) -> list[Path]:
    """Return the matching paths in a folder of a process, or none if the process has ended."""
    try:
        return [*folder.glob(pattern)]
    except OSError:
        return []


def started(start: Callable[[], _T]) -> _T:
    """Return the result of `start`, called in a thread that lasts: a sandbox ends with the thread that started it."""
    return _lasting(os.getpid()).submit(start).result()


@cache
def _lasting(process: int) -> ThreadPoolExecutor:
    """Return the lasting thread of a process, cached by process id, since a forked process lacks its parent's
    threads."""
    return ThreadPoolExecutor(1, "sandboxes")


@cache
def unusable() -> str | None:
    """Return why no sandbox can be made on this machine, or None if one can."""
    if shutil.which(PROGRAM) is None:
        return f"{PROGRAM} is not installed{how(PACKAGE)}"
    tried = subprocess.run(
        Sandbox().command(["true"], os.environ), env=BARE, capture_output=True, text=True, errors="replace", check=False
    )
    said = tried.stderr.strip().splitlines()
    return None if tried.returncode == 0 else f"no sandbox can be made here: {said[-1] if said else tried.returncode}"


def _set(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        if any(fnmatchcase(name, kept) for kept in _KEPT):
            yield from ("--setenv", name, value)
    own = {"HOME": PRIVATE, "TMPDIR": PRIVATE, "USER": "sandbox", "LOGNAME": "sandbox"}
    if site.ENABLE_USER_SITE:
        own["PYTHONUSERBASE"] = site.getuserbase()
    for name, value in own.items():
        yield from ("--setenv", name, value)
