"""The worker's loop: read a frame, run its cases, answer each."""

from __future__ import annotations

import os
import sys
import time
import warnings
from functools import partial
from typing import NoReturn

from fuzz.base.probe import unprobed
from fuzz.transport import records
from fuzz.transport.python.answer import failed, is_of_device, respond
from fuzz.transport.python.arrays import Arrays, arrays_of
from fuzz.transport.python.attempt import CaseRunner
from fuzz.transport.python.attest import attested
from fuzz.transport.python.kernel import KernelError, LoadedKernel, Spec
from fuzz.transport.python.memory import Arena, DeviceMemory, FreshMemory, Memory
from fuzz.transport.python.protocol import Channel, broken_frame
from fuzz.transport.python.state import MemoryWatch, ProcessState

_LOST_DEVICE_EXIT = 71


def work(spec: Spec, journal: int | None = None) -> None:
    """Speak the protocol on stdin and stdout until the parent closes it."""
    os.environ.update(spec.environment)
    warnings.simplefilter("ignore")
    channel = Channel(journal)
    arrays = arrays_of(spec.framework)
    if spec.framework != "numpy":
        arrays.library.set_num_threads(1)
    try:
        memory = _memory(spec, arrays)
        kernel = LoadedKernel(spec)
    except (KernelError, MemoryError) as error:
        channel.hello(f"{'broken' if isinstance(error, KernelError) else 'missing'}={error}")
        return
    try:
        hello = attested(spec, kernel, arrays.library)
    except Exception as error:
        hello = f"missing=internal error: {failed(error, own=False).words}; please report it"
    channel.hello(hello)
    runs = CaseRunner(kernel, arrays, memory, arrays.library.cuda.synchronize if spec.device == "cuda" else None)
    state = watch = None
    self = os.getpid()
    for request in channel.requests():
        # Most that is imported late is imported by the first calls: they are told apart.
        allowed_s = (request.limit_s - records.GRACE_S) / 4
        audits_each = request.one_by_one or state is None
        if state is None or watch is None:  # not before: limits are set once the worker has said who it is
            state, watch = ProcessState(), MemoryWatch(spec.device)
        for case, _ in request.cases:
            if case.op != spec.op:
                broken_frame(f"broken frame: this worker runs {spec.op}, not {case.op}")
            if not case.apart:
                broken_frame("broken frame: tensors that share memory in part")
        # Together on a GPU, where they wait for one synchronisation; elsewhere each is answered at once.
        size = len(request.cases) if spec.device == "cuda" and not request.one_by_one else 1
        for start in range(0, len(request.cases), size or 1):
            try:
                channel.begin(min(start + size, len(request.cases)))
                began = time.monotonic()
                answers = runs.answers(request.cases[start : start + size])
                call_s = time.monotonic() - began
                if os.getpid() != self:
                    os._exit(0)  # a copy that the kernel forked: two would answer
                is_last = start + size >= len(request.cases)
                changes = state.changes() if is_last or audits_each else ()
                if is_last:
                    channel.begin(len(request.cases) + 1)
                    case, is_twice = request.cases[-1]
                    usual = ((unprobed(case), is_twice),)  # a thread of a probe would be taken for a leak
                    changes += watch.leak(partial(runs.answers, usual), call_s, allowed_s)
                channel.begin(min(start + size, len(request.cases)))
                memory.release()
                responses = [
                    respond(position, *answered, changes if position == start + len(answers) - 1 else ())
                    for position, answered in enumerate(answers, start)
                ]
            except Exception as error:
                if os.getpid() != self:
                    os._exit(0)
                if spec.device == "cuda" and is_of_device(error):
                    _lose_device(error)  # it is lost for whatever comes next
                ours = failed(error, own=kernel.is_own(error))
                group = request.cases[start : start + size]
                responses = [respond(position, case, ours, None) for position, (case, _) in enumerate(group, start)]
            for position, response in enumerate(responses, start):
                channel.answer(response, position + 1)
        channel.flush(len(request.cases))


def _memory(spec: Spec, arrays: Arrays) -> Memory:
    """Under a tool, which has no margin, every tensor is memory of its own: the tool watches its ends."""
    if spec.device == "cuda":
        return DeviceMemory(spec.margin, arrays.library)
    return Arena(spec.margin, spec.tensors, spec.watcher) if spec.margin else FreshMemory(spec.margin)


def _lose_device(error: Exception) -> NoReturn:
    """End the process and say why: an illegal access leaves nothing to go on with."""
    print((str(error).splitlines() or [repr(error)])[0], file=sys.stderr, flush=True)
    os._exit(_LOST_DEVICE_EXIT)
