"""Work of one kind in several processes at once, with the standard library's pool, made to end promptly."""

from __future__ import annotations

import ctypes
import os
import signal
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from itertools import islice
from multiprocessing import active_children, get_context
from typing import Any, Literal, TypeVar

from msgspec import json

from fuzz.core.base.errors import InternalError
from fuzz.core.judge.trouble import error_words

_LOOK_S = 0.25
"""Seconds between two calls of `over`."""
_PARENT_DEATH = 1
"""PR_SET_PDEATHSIG, in prctl(2)."""
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_work: Callable[[Any], Any]
"""The function that the processes of a pool run. Forked processes inherit it, as a pack's kernels cannot be pickled."""


def spread(
    work: Callable[[_Item], _Result], items: Iterable[_Item], processes: int, method: Literal["fork", "spawn"],
    over: Callable[[], bool] = lambda: False,
) -> Generator[tuple[_Item, _Result | None], None, None]:  # fmt: skip
    """Yield each item with its result, as the items end, until `over` returns true.

    An item is taken when a process is free for it. The result is None if the process was killed from outside; then no
    further item is begun. Processes that still run when it is over, or when the caller stops iterating, are killed.
    """
    executor, others = ProcessPoolExecutor(processes, get_context(method), _begin, (work,)), {*active_children()}
    waiting, running, broken = iter(items), dict[Future[_Result], _Item](), False
    try:
        with _deaf():
            running |= {executor.submit(_carry_out, item): item for item in islice(waiting, processes)}
        while running and not over():
            done, _ = wait(running, _LOOK_S, FIRST_COMPLETED)
            for future in done:
                died = isinstance(future.exception(), BrokenProcessPool)
                broken = broken or died
                yield running.pop(future), None if died else future.result()
            if not broken:
                running |= {executor.submit(_carry_out, item): item for item in islice(waiting, len(done))}
    finally:
        for process in {*active_children()} - others if running else ():
            process.kill()
        executor.shutdown(cancel_futures=True)


def spread_answers(
    items: Sequence[_Item], ask: Callable[[_Item], _Result], kind: type[_Result], processes: int,
    over: Callable[[], bool], name: Callable[[_Item], str], died: str, begin: Callable[[int], None] = lambda _: None,
) -> Iterator[_Result]:  # fmt: skip
    """Yield the answers of forked processes about items that cannot be pickled, as they end, until `over` returns true.
    `begin` is called with the index of each item before it begins. Raises InternalError, with the item's name and
    either the error in the process, or `died` if the process was killed from outside."""

    def answered(place: int) -> bytes | str:
        try:
            return json.encode(ask(items[place]))
        except Exception as error:
            return error_words(error)

    def places() -> Iterator[int]:
        for place in range(len(items)):
            begin(place)
            yield place

    with closing(spread(answered, places(), min(processes, len(items)) or 1, "fork", over)) as found:
        for place, came in found:
            if not isinstance(came, bytes):
                raise InternalError(f"{name(items[place])}: {came or died}")
            yield json.decode(came, type=kind)


def stand_alone() -> None:
    """Make this process ignore the signals that stop all processes of a terminal; it ends when its parent ends."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PARENT_DEATH, signal.SIGKILL)


def _begin(work: Callable[[Any], Any]) -> None:
    global _work
    stand_alone()
    _work = work


def _carry_out(item: Any) -> Any:
    return _work(item)


@contextmanager
def _deaf() -> Iterator[None]:
    """Block Ctrl-C for the processes that are started inside the block, even while they start."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with warnings.catch_warnings():
            # Python 3.12 warns of threads; ours only wait, and NumPy's are prepared for a fork.
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)  # JAX has a warning of its own
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
