"""The fork server: it imports the slow modules once, and forks a worker for each request. It never touches a device,
since a process that is forked after CUDA was initialised cannot use it. `multiprocessing.forkserver` is unsuitable: it
runs the user's script again in each worker, it pickles what it sends, and there is one for the whole process, while
compiled and interpreted kernels need one each."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from fuzz.core.transport.python.attest import know_interpreter
from fuzz.core.transport.python.keeper import keep_worker
from fuzz.core.transport.python.worker import work

_REQUEST_BYTES = 1 << 18
"""The largest size of a request in bytes. A socket usually takes no longer message than 208 KB."""
_DESCRIPTORS = 5
"""The number of descriptors of a worker: stdin, stdout and stderr, its journal, and the socket for notices about it."""
_NOTICE_BYTES = 64
"""The largest size of a notice in bytes. A notice is 'code' or 'pid', and a number."""


def serve(control: socket.socket, imports: Sequence[str]) -> None:
    """Fork workers until the parent closes `control`. A request is a spec, and a journal's descriptor among others."""
    _import(imports)
    serve_forks(control, _become_worker)


def serve_forks(
    control: socket.socket, become: Callable[[str, Sequence[int]], NoReturn],
    prepare: Callable[[str], None] = lambda message: None,
) -> None:  # fmt: skip
    """Fork a process for each request until the parent closes `control`. A request is a message and descriptors: the
    stdin, stdout and stderr of the process, others, and a socket. On the socket the server reports the process's id and
    end, and obeys 'term' and 'kill'. `prepare` is called with the message before the fork. `become` is called in the
    forked process, in a session of its own and below a keeper, with the message and the other descriptors."""
    waker, woken = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(waker, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(woken)
    children: dict[int, socket.socket] = {}
    while True:
        ready = _ready([control.fileno(), waker, *(notify.fileno() for notify in children.values())])
        if waker in ready:
            os.read(waker, 4096)
            _reap(children)
        for pid, notify in list(children.items()):
            if notify.fileno() in ready:
                asked = b""
                with contextlib.suppress(OSError):
                    asked = notify.recv(_NOTICE_BYTES)
                # A terminated keeper ends its worker. This is also done if nobody receives notices any more.
                os.kill(pid, signal.SIGKILL if asked == b"kill" else signal.SIGTERM)
        if control.fileno() in ready:
            message, descriptors, _, _ = socket.recv_fds(control, _REQUEST_BYTES, _DESCRIPTORS)
            if not message:
                break
            prepare(message.decode())
            _fork(message.decode(), descriptors, control, children, become)
    for pid in children:
        os.kill(pid, signal.SIGTERM)


def _ready(descriptors: Sequence[int]) -> set[int]:
    """Wait until some descriptors can be read, and return these."""
    # select cannot handle numbers beyond 1023, which occur in an engine with hundreds of workers
    watch = select.poll()
    for descriptor in descriptors:
        watch.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in watch.poll()}


def _import(names: Sequence[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    if "triton" in sys.modules and "TRITON_INTERPRET" in os.environ:
        with contextlib.suppress(Exception):  # a worker meets it too, and says what it is
            know_interpreter()
    with contextlib.suppress(OSError):  # a kernel finds its modules there, like any Python program
        sys.path.insert(0, str(Path.cwd()))
    gc.collect()
    gc.freeze()  # else a collection in a worker would write to, and so copy, every page


def _fork(
    message: str, descriptors: list[int], control: socket.socket, children: dict[int, socket.socket],
    become: Callable[[str, Sequence[int]], NoReturn],
) -> None:  # fmt: skip
    *given, notify = descriptors
    notices = socket.socket(fileno=notify)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer versions of Python warn about threads; torch has idle ones
        pid = os.fork()
    if pid == 0:
        for other in (control, notices, *children.values()):
            other.close()
        for number, descriptor in enumerate(given[:3]):
            os.dup2(descriptor, number)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        keep_worker()
        become(message, given[3:])
    for descriptor in given:
        os.close(descriptor)
    children[pid] = notices
    with contextlib.suppress(OSError):  # if nobody listens any more, reading from the socket ends the worker
        notices.send(f"pid {pid}".encode())


def _become_worker(message: str, descriptors: Sequence[int]) -> NoReturn:
    try:
        work(message, *descriptors)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def _reap(children: dict[int, socket.socket]) -> None:
    for pid in list(children):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            _send_end(children.pop(pid), os.waitstatus_to_exitcode(status))


def _send_end(notify: socket.socket, code: int) -> None:
    with contextlib.suppress(OSError):  # nobody waits for it any more
        notify.send(f"code {code}".encode())
    notify.close()
