"""A sandbox for workers whose kernel nobody vouches for: what it may see of the machine, and what it may not do.

Bubblewrap makes it: namespaces of the worker's own, no network, a tree that cannot be written to. What that is worth
stands in `docs/containment.md`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TypeVar

from fuzz.base.packages import how

_T = TypeVar("_T")

PROGRAM, PACKAGE = "bwrap", "bubblewrap"
PRIVATE = "/tmp"
"""The one folder that can be written to. It is empty at first, and gone with the last process."""
_PRIVATE_BYTES = 1 << 30
"""What it holds at most: torch.compile keeps some 100 MB there."""
_HIDDEN = ("/home", "/root", "/run", "/srv", "/mnt", "/media", "/var")
_DEVICES = ("nvidia*", "dri", "kfd")
_KEPT = (
    "PATH", "LANG", "LC_*", "PYTHONPATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "*_NUM_THREADS", "TRITON_*", "TORCH*",
    "CUDA_*", "NVIDIA_*",
)  # fmt: skip
"""Variables that a worker may have, as globs: others may hold what is secret."""


@dataclass(frozen=True)
class Sandbox:
    """What a worker may read besides the system's programs and libraries, Python's and ours."""

    readable: tuple[Path, ...]

    def command(self, environment: Mapping[str, str]) -> tuple[str, ...]:
        """Return the words to put before those of a worker. Of `environment`, the variables that it would have had, it
        keeps those that say nothing of the user."""
        hidden = [word for path in _hidden() for word in ("--tmpfs", path)]
        sealed = [word for path in _hidden() for word in ("--remount-ro", path)]
        readable = [word for path in self._shown() for word in ("--ro-bind-try", path, path)]
        devices = [
            word
            for pattern in _DEVICES
            for path in sorted(Path("/dev").glob(pattern))
            for word in ("--dev-bind-try", str(path), str(path))
        ]
        return (
            PROGRAM, "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--cap-drop", "ALL",
            "--ro-bind", "/", "/", "--dev", "/dev", *devices, "--proc", "/proc", *hidden,
            "--size", str(_PRIVATE_BYTES), "--tmpfs", PRIVATE, *readable, *sealed, "--chdir", "/",
            "--clearenv", *_set(environment), "--",
        )  # fmt: skip

    def _shown(self) -> Iterator[str]:
        """The paths that are to be seen although they may lie in a folder that is hidden. One that lies in another
        comes after it."""
        package = Path(__file__).resolve().parents[2]
        own = (Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parent.parent, package / "fuzz",
               package / "oracles")  # fmt: skip
        named = (path for each in (*own, *self.readable) for path in (each.absolute(), each.resolve()))
        hidden = (*_hidden(), PRIVATE)
        yield from sorted({str(path) for path in named if any(path.is_relative_to(each) for each in hidden)})


def outside(below: int, inside: int) -> int:
    """Return the id here of the process that is number `inside` in a sandbox, where process `below` is or has started
    the sandbox; `below` where there is none."""
    for pid in _descendants(below):
        try:
            status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
        except OSError:  # it has ended
            continue
        ids = next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")), [])
        if len(ids) > 1 and ids[-1] == str(inside):
            return pid
    return below


def _descendants(pid: int) -> Iterator[int]:
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        return
    for child in children:
        yield from _descendants(int(child))


def started(start: Callable[[], _T]) -> _T:
    """Return what `start` starts, from a thread that lasts: a sandbox ends with the thread that started it."""
    return _lasting(os.getpid()).submit(start).result()


@cache
def _lasting(process: int) -> ThreadPoolExecutor:
    """The thread of a process; one that was forked has not those of its parent."""
    return ThreadPoolExecutor(1, "sandboxes")


@cache
def unusable() -> str | None:
    """Return why no sandbox can be made on this machine, or None where one can."""
    if shutil.which(PROGRAM) is None:
        return f"{PROGRAM} is not installed{how(PACKAGE)}"
    tried = subprocess.run(
        [*Sandbox(()).command(os.environ), "true"], capture_output=True, text=True, errors="replace", check=False
    )
    said = tried.stderr.strip().splitlines()
    return None if tried.returncode == 0 else f"no sandbox can be made here: {said[-1] if said else tried.returncode}"


def _hidden() -> tuple[str, ...]:
    """The folders of the machine that a worker does not see: those of people, and what goes on here."""
    own = Path(os.environ.get("HOME", "/"))
    covered = own == Path("/") or any(own.is_relative_to(path) for path in (*_HIDDEN, PRIVATE))
    return tuple(path for path in (*_HIDDEN, *(() if covered else (str(own),))) if Path(path).is_dir())


def _set(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        if any(fnmatchcase(name, kept) for kept in _KEPT):
            yield from ("--setenv", name, value)
    yield from ("--setenv", "HOME", PRIVATE, "--setenv", "TMPDIR", PRIVATE)
