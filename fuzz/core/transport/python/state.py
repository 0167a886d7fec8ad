"""The state of the process that a Python kernel must leave as it was, and leaks; `native/state.c` is for C."""

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
import time
from collections.abc import Callable, Mapping, Sequence
from operator import lt
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.core.base.outcome import Change

_TINY, _HALF, _ONE, _BIT = (np.array(value, np.float32) for value in (2.0**-126, 0.5, 1.0, 2.0**-24))
_SIGNALS = tuple(sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}))
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_LIMITS = tuple(value for name, value in vars(resource).items() if name.startswith("RLIMIT_"))
_SET_UP_BY_IMPORTS = frozenset({"environment", "library state", "signals", "threads"})
"""Changes that libraries make when a kernel imports them in its first call."""
_WARM_UP_CALLS, _FIRST_CALLS, _MORE_CALLS, _LOST_BYTES = 3, 9, 3000, 256 << 20
"""The numbers of calls by which a leak is recognised: each of the first calls keeps memory, and each of `_MORE_CALLS`
calls keeps at least half as much. Fewer calls are enough if all of them together would lose more than `_LOST_BYTES`.
`native/main.c` has the same numbers."""
_LOOKS = frozenset((256, 512, 1024, 2048))
"""The numbers of calls after which the growth is checked, to stop early if it has ended. Python's lists of free objects
are full after some hundred calls, and thousands of calls of torch take seconds."""

Fact = tuple[str, str]
"""A kind of `CHANGES`, with the message if its value has changed."""


class ProcessState:
    """The state of the process before the first call, or when a change was last reported."""

    def __init__(self) -> None:
        self._torch = sys.modules.get("torch")
        self._modules = len(sys.modules)
        self._known = self._facts()

    def changes(self) -> tuple[Change, ...]:
        """Return the changes since the last report. The next call does not report them again."""
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
            ("threads", "another number of threads"): threading.active_count(),
            ("folder", "the current folder is another one"): _folder(),
            ("environment", "the variables differ"): dict(os.environ),
            ("environment", "the file mode mask differs"): _mask(),
            ("environment", "another locale"): locale.setlocale(locale.LC_ALL),
            ("limits", "resource limits differ"): tuple(map(resource.getrlimit, _LIMITS)),
            ("timers", "a timer is set"): any(signal.getitimer(each)[0] > 0 for each in _TIMERS),
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
    """Distinguishes calls that leak memory from calls that keep it for later use."""

    def __init__(self, device: str) -> None:
        self._torch = sys.modules["torch"] if device == "cuda" else None
        self._mallinfo = _mallinfo()
        self._known = self._in_use()
        self._frames = 0
        self._next = 1

    def leak(self, call: Callable[[], object], call_s: float, allowed_s: float) -> tuple[Change, ...]:
        """Return the leak of a frame: the memory that each of many repetitions of its last `call` keeps. Give up if
        they would take more than `allowed_s` seconds; the call took `call_s`. If a frame grew the process for another
        reason, later frames are checked more rarely."""
        self._frames += 1
        found: str | None = None
        is_quick = call_s * 2 * (_WARM_UP_CALLS + _FIRST_CALLS) < allowed_s  # else the case would seem to hang
        if is_quick and self._frames >= self._next and any(map(lt, self._known, self._in_use())):
            self._next = 2 * self._frames
            found = self._kept(call, allowed_s)
        if self._frames + 1 >= self._next:  # malloc walks through its arenas for this
            self._known = self._in_use()
        return (
            (Change("memory", f"every call keeps more, {found} in each of many calls of this case"),) if found else ()
        )

    def look(self) -> None:
        """Record the present use of memory as the baseline for leaks."""
        self._known = self._in_use()

    def _kept(self, call: Callable[[], object], allowed_s: float) -> str | None:
        """Return in words how much each call keeps. Return None if not every call keeps something, or if measuring
        takes too long."""
        until = time.monotonic() + allowed_s
        for _ in range(_WARM_UP_CALLS):
            call()
        usual = self._usual_growth(call)
        if not any(usual):
            return None
        first, calls = self._in_use(), 0
        while calls < _MORE_CALLS and calls * max(usual[1:]) < _LOST_BYTES:
            if time.monotonic() > until:
                return None
            call()
            calls += 1
            if calls in _LOOKS and not any(self._lost(usual, first, calls)):
                return None  # the cache is full already
        objects, *sizes = self._lost(usual, first, calls)
        return f"{max(sizes)} bytes" if any(sizes) else f"{objects} Python objects" if objects else None

    def _lost(self, usual: Sequence[int], first: Sequence[int], calls: int) -> Sequence[int]:
        """Return the usual growth for each measure, or 0 where `calls` calls did not keep half of it: a cache is full
        by then, or was emptied."""
        gc.collect()
        grown = [new - old for old, new in zip(first, self._in_use(), strict=True)]
        return [each if each and more > calls // 2 * each else 0 for each, more in zip(usual, grown, strict=True)]

    def _usual_growth(self, call: Callable[[], object]) -> tuple[int, ...]:
        """Return, for each measure, the mean growth in the first calls, or 0 if it did not grow in each of them."""
        gc.collect()
        # Existing objects were not made by these calls. A collection goes through all objects that are not frozen,
        # which takes a tenth of a second each time if torch and a compiler are loaded.
        gc.freeze()
        first = before = self._in_use()
        always = [True] * len(before)
        for _ in range(_FIRST_CALLS):
            call()
            gc.collect()
            after = self._in_use()
            always = [kept and new > old for kept, old, new in zip(always, before, after, strict=True)]
            if not any(always):
                break
            before = after
        # Not the smallest growth: if an allocator has a gap to fill, one call seems to take far less.
        return tuple(kept * (new - old) // _FIRST_CALLS for kept, old, new in zip(always, first, before, strict=True))

    def _in_use(self) -> tuple[int, int, int]:
        """Return the number of Python's objects, the bytes that malloc gave out, and the bytes in use on a GPU."""
        on_device = int(self._torch.cuda.memory_allocated()) if self._torch is not None else 0
        return sys.getallocatedblocks(), self._mallinfo(), on_device


class _Mallinfo(ctypes.Structure):
    """struct mallinfo2 of malloc.h."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"
        )
    )  # fmt: skip


def _mallinfo() -> Callable[[], int]:
    """Return a function that returns how many bytes malloc has given out, or 0 with C libraries other than glibc."""
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


def _folder() -> str:
    with contextlib.suppress(OSError):
        return str(Path.cwd())
    return ""


def _mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
