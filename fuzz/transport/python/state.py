"""What a Python kernel must leave as it found it, as `native/state.c` has it for C: what outlives a call."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import locale
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.base.outcome import Change

_TINY, _HALF, _ONE, _BIT = (np.array(value, np.float32) for value in (2.0**-126, 0.5, 1.0, 2.0**-24))
_SIGNALS = tuple(sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}))
_LIMITS = tuple(value for name, value in vars(resource).items() if name.startswith("RLIMIT_"))
_SET_UP_BY_IMPORTS = frozenset({"environment", "library state", "signals", "threads", "children"})
"""Libraries that a kernel imports when it is first called set up what they need."""
LEAK_CALLS = 9
"""So many calls in a row must each keep memory to be a leak; `native/main.c` has the same number."""

Fact = tuple[str, str]
"""A kind of CHANGES, and what is said where the fact is another one."""


class ProcessState:
    """The process as it was before the first call, or when a change was last told."""

    def __init__(self) -> None:
        self._torch = sys.modules.get("torch")
        self._modules = len(sys.modules)
        self._known = self._facts()

    def changes(self) -> tuple[Change, ...]:
        """What differs now; the next time it is no news."""
        before, self._known = self._known, self._facts()
        imported, self._modules = len(sys.modules) != self._modules, len(sys.modules)
        return tuple(
            Change(*fact)
            for fact, value in self._known.items()
            if value != before[fact] and not (imported and fact[0] in _SET_UP_BY_IMPORTS)
        )

    def _facts(self) -> Mapping[Fact, object]:
        return {
            ("floating-point environment", "subnormals are flushed to zero"): bool(_TINY * _HALF == 0),
            ("floating-point environment", "another rounding mode"): (
                float(_ONE + _BIT), float(-_ONE - _BIT), float(_ONE + _BIT + _BIT)
            ),
            ("signals", "another handler"): tuple(signal.getsignal(number) for number in _SIGNALS),
            ("signals", "others are blocked"): frozenset(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
            ("descriptors", "0, 1 or 2 was closed or is open on something else"): tuple(map(_open_on, (0, 1, 2))),
            ("descriptors", "sys.stdout or sys.stderr is another object"): (id(sys.stdout), id(sys.stderr)),
            ("children", "a process that still runs, or that nobody waited for"): _has_children(),
            ("threads", "another number of threads"): threading.active_count(),
            ("folder", "the current folder is another one"): _folder(),
            ("environment", "the variables differ"): dict(os.environ),
            ("environment", "the file mode mask differs"): _mask(),
            ("environment", "another locale"): locale.setlocale(locale.LC_ALL),
            ("limits", "resource limits differ"): tuple(map(resource.getrlimit, _LIMITS)),
            ("timers", "a timer is set"): tuple(map(signal.getitimer, (signal.ITIMER_VIRTUAL, signal.ITIMER_PROF))),
            ("scheduling", "processors or priority differ"): (
                os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0)
            ),
            ("library state", "Python's recursion limit differs"): sys.getrecursionlimit(),
            ("library state", "Python's garbage collection is on or off"): gc.isenabled(),
            ("library state", "NumPy's error handling differs"): np.geterr(),
            **(_torch_facts(self._torch) if self._torch is not None else {}),
        }  # fmt: skip


def _torch_facts(torch: Any) -> Mapping[Fact, object]:
    return {
        ("library state", "torch's default dtype differs"): torch.get_default_dtype(),
        ("library state", "torch's default device differs"): str(torch.get_default_device()),
        ("library state", "torch's number of threads differs"): torch.get_num_threads(),
        ("library state", "torch records gradients or not"): torch.is_grad_enabled(),
        ("library state", "torch's deterministic algorithms are on or off"): (
            torch.are_deterministic_algorithms_enabled()
        ),
        ("library state", "torch's precision of float32 products differs"): torch.get_float32_matmul_precision(),
        ("library state", "torch's autocast is on or off"): torch.is_autocast_enabled(),
    }  # fmt: skip


class MemoryWatch:
    """Tells calls that keep memory for ever from those that keep it for later."""

    def __init__(self, device: str) -> None:
        self._torch = sys.modules["torch"] if device == "cuda" else None
        self._mallinfo = _mallinfo()
        self._known = self._in_use()
        self._frames = 0
        self._next = 1

    def leak(self, call: Callable[[], object]) -> tuple[Change, ...]:
        """Asked after a frame, with its last call to make again: what each of many such calls keeps more than the one
        before. Where a frame grew the process for another reason, the next is looked at later."""
        self._frames += 1
        grown = self._frames >= self._next and _grew(self._known, self._in_use())
        if grown:
            self._next = 2 * self._frames
            bytes_kept = self._kept(call)
            if bytes_kept is not None:
                words = f"every call keeps more, {bytes_kept} in the last of {LEAK_CALLS} calls of this case"
                return (Change("memory", words),)
        self._known = self._in_use()
        return ()

    def _kept(self, call: Callable[[], object]) -> str | None:
        """What the last call keeps, in words; None where one of them kept nothing."""
        gc.collect()
        before = after = self._in_use()
        for _ in range(LEAK_CALLS):
            before = after
            call()
            gc.collect()
            after = self._in_use()
            if not _grew(before, after):
                return None
        size = max(new - old for old, new in zip(before[1:], after[1:], strict=True))
        return f"{size} bytes" if size > 0 else f"{after[0] - before[0]} Python objects"

    def _in_use(self) -> tuple[int, int, int]:
        """The number of Python's objects, the bytes that malloc gave out, and those on a GPU."""
        on_device = int(self._torch.cuda.memory_allocated()) if self._torch is not None else 0
        return sys.getallocatedblocks(), self._mallinfo(), on_device


def _grew(before: tuple[int, int, int], after: tuple[int, int, int]) -> bool:
    return any(new > old for old, new in zip(before, after, strict=True))


class _Mallinfo(ctypes.Structure):
    """struct mallinfo2 of malloc.h."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"
        )
    )  # fmt: skip


def _mallinfo() -> Callable[[], int]:
    """A function that says how many bytes malloc has given out; on other C libraries than glibc always 0."""
    ask = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if ask is None:
        return lambda: 0
    ask.restype = _Mallinfo

    def given_out() -> int:
        found = ask()
        return int(found.uordblks + found.hblkhd)

    return given_out


def _open_on(descriptor: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _folder() -> str:
    with contextlib.suppress(OSError):
        return str(Path.cwd())
    return ""


def _mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
