"""The process above a worker, as `native/keeper.c` is for C kernels.

No kernel runs in it: it waits for the worker, ends whatever the kernel started that outlived it, and ends the way the
worker did. A kernel that signals its parent signals this one, and not the server of all workers.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from pathlib import Path
from typing import NoReturn

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
"""The numbers are those of <linux/prctl.h>."""


def keep_worker() -> None:
    """Returns in the worker; the keeper stays in here until the worker has ended."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)  # a hung kernel must not outlive a server that was killed
    keeper = os.getpid()
    worker = os.fork()
    if worker:
        _keep(worker)
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    prctl(_PR_SET_CHILD_SUBREAPER, 1)  # so that an orphan of the kernel's is seen to be its child
    if os.getppid() != keeper:
        os._exit(0)


def _keep(worker: int) -> NoReturn:
    running = [worker]

    def stop(number: int, frame: object) -> None:
        for pid in running:
            os.kill(pid, signal.SIGKILL)

    signal.signal(signal.SIGTERM, stop)
    os.closerange(0, 2)  # or nobody would see that the worker has closed its ends
    _, status = os.waitpid(worker, 0)
    running.clear()
    _end_orphans()
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        os._exit(code)
    with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    os._exit(1)


def _end_orphans() -> None:
    """Orphans come to us, the reaper of all that descends from here: whatever child there still is was left behind."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0] >= 0:
            for entry in Path("/proc").iterdir():
                if entry.name.isdigit() and _parent_of(entry) == os.getpid():
                    os.kill(int(entry.name), signal.SIGKILL)


def _parent_of(process: Path) -> int:
    try:
        # The name, in parentheses, may hold anything.
        return int((process / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0
