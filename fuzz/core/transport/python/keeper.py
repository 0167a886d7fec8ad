"""The process above a worker of Python kernels; `native/keeper.c` does the same for C kernels. No kernel runs in it. It
waits for the worker, ends the processes that the kernel left running, and then ends the way the worker did. A kernel
that signals its parent signals this process, and not the server of all workers."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Collection
from pathlib import Path
from typing import NoReturn

from fuzz.core.base.outcome import Change

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
"""The numbers of <linux/prctl.h>."""


def keep_worker() -> None:
    """Fork the worker, and return in it. The keeper stays in this function until the worker has ended."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)  # a hung kernel must not outlive a server that was killed
    keeper = os.getpid()
    worker = os.fork()
    if worker:
        _keep(worker)
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    prctl(_PR_SET_CHILD_SUBREAPER, 1)  # so that an orphan of the kernel becomes the worker's child
    if os.getppid() != keeper:
        os._exit(0)


def _keep(worker: int) -> NoReturn:
    running = [worker]

    def stop(number: int, frame: object) -> None:
        for pid in running:
            os.kill(pid, signal.SIGKILL)

    signal.signal(signal.SIGTERM, stop)
    os.closerange(0, 2)  # else nobody would see that the worker has closed its ends
    _, status = os.waitpid(worker, 0)
    running.clear()
    _end_children()
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        os._exit(code)
    with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    os._exit(1)


class Children:
    """The descendants of a worker, including orphans. Those that a call leaves behind are ended and reported."""

    def __init__(self, *, keeps: bool) -> None:
        """`keeps` says that the kernel declares to keep processes running, so that none is ended."""
        self._keeps, self._known, self._left = keeps, frozenset[int](), False

    def know(self) -> None:
        """Remember the processes that exist now: no call has left them behind."""
        self._known = _children()

    def end(self) -> None:
        """End all processes that `know` has not seen, after a call."""
        if not self._keeps and _children() - self._known:
            self._left = True
            _end_children(self._known)

    def changes(self) -> tuple[Change, ...]:
        """Return whether calls have left processes behind since this was last asked, as changes."""
        left, self._left = self._left, False
        return (Change("children", "a process that still runs, or that nobody waited for"),) if left else ()


def _end_children(known: Collection[int] = ()) -> None:
    """End all children but the `known` ones, orphans included: this process is the reaper of its descendants."""
    while left := _children() - {*known}:
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def _children() -> frozenset[int]:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return frozenset()
    own = os.getpid()
    return frozenset(int(each.name) for each in Path("/proc").glob("[0-9]*") if _parent_of(each) == own)


def _parent_of(process: Path) -> int:
    try:
        # The name of the process, in parentheses, may contain anything.
        return int((process / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0
