"""The worker's loop: it reads a frame, runs its cases, and answers each."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Sequence
from functools import partial
from typing import NoReturn

from fuzz.core.base.probe import unprobed
from fuzz.core.transport import records
from fuzz.core.transport.python.answer import failed, is_of_device, respond
from fuzz.core.transport.python.arrays import Arrays, arrays_of
from fuzz.core.transport.python.attempt import CaseRunner
from fuzz.core.transport.python.attest import attested
from fuzz.core.transport.python.device import device_memory
from fuzz.core.transport.python.keeper import Children
from fuzz.core.transport.python.kernel import KernelError, LoadedKernel, NeedsCudaError, Spec, decoded
from fuzz.core.transport.python.memory import Arena, CallMemory, FreshMemory
from fuzz.core.transport.python.programs import note_programs
from fuzz.core.transport.python.protocol import Channel, Request, broken_frame
from fuzz.core.transport.python.state import MemoryWatch, ProcessState
from fuzz.core.transport.python.unset import watch_allocators
from fuzz.core.transport.python.watched import Report

_LOST_DEVICE_EXIT = 71
_TOGETHER_S = 0.5
"""The seconds after which no more cases of a frame are launched before those launched so far are answered. Launching
takes so long if programs are compiled. Their work is not lost if the session ends, and silences stay short."""


class _Resident:
    """A kernel in this process that is ready to be called, or the reason why it cannot be."""

    def __init__(self, spec: Spec, report: Report | None) -> None:
        self.spec, self._report = spec, report
        if spec.programs:
            note_programs(spec.programs)
        self._arrays: Arrays = arrays_of(spec.library)
        if spec.sanitizer != "initcheck":  # this tool would take filled memory for initialised memory
            watch_allocators(self._arrays.library)
        if spec.library != "numpy":
            self._arrays.library.set_num_threads(1)
        self.runs: CaseRunner | None = None
        self._state: ProcessState | None = None
        self._watch: MemoryWatch | None = None
        self._children = Children(keeps="children" in spec.keeps)
        try:
            self._memory = _memory(spec, self._arrays)
            self._kernel = LoadedKernel(spec)
        except (KernelError, NeedsCudaError, MemoryError) as error:
            self.hello = f"{'broken' if isinstance(error, KernelError) else 'missing'}={error}"
            return
        library, cuda = self._arrays.library, spec.device == "cuda"
        try:
            self.hello = attested(spec, self._kernel, library)
        except Exception as error:
            self.hello = f"missing=internal error: {failed(error, own=False).words}; please report it"
        finish = library.cuda.synchronize if cuda else None
        self.runs = CaseRunner(
            self._kernel, self._arrays, self._memory, finish, self._reported, self._children.end
        )  # fmt: skip

    def enter(self) -> None:
        """Accept the present state of the process, since changes by other kernels must not be blamed on this one."""
        if self._state is not None and self._watch is not None:
            self._state.changes()
            self._watch.look()
            self._children.know()

    def _reported(self) -> str:
        """Return the first error that a tool which watches this worker reported since it was last asked, or ''."""
        return "" if self._report is None else self._report.words()

    def answer(self, request: Request, channel: Channel) -> None:
        """Run the cases of a frame, and send their answers."""
        assert self.runs is not None, "a kernel that could be loaded"
        audits_each = request.one_by_one or self._state is None
        if self._state is None or self._watch is None:  # not earlier, since limits are set after the hello
            self._state, self._watch = ProcessState(), MemoryWatch(self.spec.device)
            self._children.know()
        for case, _ in request.cases:
            if case.op != self.spec.op:
                broken_frame(f"broken frame: this worker runs {self.spec.op}, not {case.op}")
            if not case.apart:
                broken_frame("broken frame: tensors that share memory in part")
        # On a GPU cases run together, and wait for one synchronisation. Elsewhere each is answered at once. So it is if
        # a tool's report must belong to one case.
        together = self.spec.device == "cuda" and not request.one_by_one and self._report is None
        size = len(request.cases) if together else 1
        start = 0
        while start < len(request.cases):
            responses = self._group(request, start, size, audits_each, channel)
            for position, response in enumerate(responses, start):
                channel.answer(response, position + 1)
            start += len(responses)
        channel.flush(len(request.cases))

    def _group(self, request: Request, start: int, size: int, audits_each: bool, channel: Channel) -> Sequence[bytes]:
        """Return the responses to a group of up to `size` cases that run together, starting at index `start`."""
        assert self.runs is not None
        assert self._state is not None
        assert self._watch is not None
        group, own_process = request.cases[start : start + size], os.getpid()
        # Most late imports happen in the first calls, which are checked one by one.
        allowed_s = (request.limit_s - records.GRACE_S) / 4
        try:
            channel.begin(start + 1)
            began = time.monotonic()
            answers = self.runs.answers(group, _TOGETHER_S)
            call_s = time.monotonic() - began
            if os.getpid() != own_process:
                os._exit(0)  # this is a copy that the kernel forked, and two would answer
            is_last = start + len(answers) >= len(request.cases)
            changes = self._children.changes() + (self._state.changes() if is_last or audits_each else ())
            if is_last:
                channel.begin(len(request.cases) + 1)
                case, is_twice = request.cases[-1]
                usual = ((unprobed(case), is_twice),)  # a thread of a probe would be taken for a leak
                if self._report is None:  # a tool keeps something of each call
                    changes += self._watch.leak(partial(self.runs.answers, usual), call_s, allowed_s)
            channel.begin(start + len(answers))
            self._memory.release()
            return [
                respond(position, *answered, changes if position == start + len(answers) - 1 else ())
                for position, answered in enumerate(answers, start)
            ]
        except Exception as error:
            if os.getpid() != own_process:
                os._exit(0)
            if self.spec.device == "cuda" and is_of_device(error):
                _lose_device(error, self._reported())  # the device is lost for later cases too
            ours = failed(error, own=self._kernel.is_own(error))
            return [respond(position, case, ours, None) for position, (case, _) in enumerate(group, start)]


def work(spec: str, journal: int | None = None) -> None:
    """Speak the protocol on stdin and stdout until the parent closes it. The parent may ask for other kernels in turn.
    Kernels that ran stay loaded, with the programs that were compiled for them."""
    first = decoded(spec)
    os.environ.update(first.environment)
    warnings.simplefilter("ignore")
    channel = Channel(journal)
    report = Report() if first.sanitizer else None
    residents = {spec: _Resident(first, report)}
    resident = residents[spec]
    channel.hello(resident.hello)
    if resident.runs is None:
        return
    for request in channel.requests():
        if isinstance(request, Request):
            resident.answer(request, channel)
            continue
        resident = residents.get(request) or residents.setdefault(request, _Resident(decoded(request), report))
        resident.enter()
        channel.hello(resident.hello)
        if resident.runs is None:
            return


def _memory(spec: Spec, arrays: Arrays) -> CallMemory:
    """Return the memory for tensors. Under a tool each tensor is an allocation of its own, without margins, since the
    tool watches its ends."""
    if spec.device == "cuda":
        return device_memory(spec.margin)
    return Arena(spec.margin, spec.tensors, spec.watcher) if spec.margin else FreshMemory(spec.margin)


def _lose_device(error: Exception, report: str) -> NoReturn:
    """End the process and print why. After an illegal access the device cannot be used."""
    print(report or (str(error).splitlines() or [repr(error)])[0], file=sys.stderr, flush=True)
    os._exit(_LOST_DEVICE_EXIT)
