"""The worker's loop: read a frame, run its cases, answer each."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

from fuzz.base.case import Case
from fuzz.transport import records
from fuzz.transport.python.attempt import Answer, Attempt, respond
from fuzz.transport.python.attest import attested
from fuzz.transport.python.kernel import Kernel, KernelError, Spec
from fuzz.transport.python.protocol import Channel, broken_frame
from fuzz.transport.python.slab import too_large

_LOST_DEVICE_EXIT = 71


def work(spec: Spec) -> None:
    """Speak the protocol on stdin and stdout until the parent closes it."""
    os.environ.update(spec.environment)
    warnings.simplefilter("ignore")
    channel = Channel()
    import torch

    torch.set_num_threads(1)
    try:
        kernel = Kernel(spec)
    except KernelError as error:
        channel.hello(f"broken={error}")
        return
    channel.hello(attested(spec, kernel, torch))
    runs = _Runs(spec, kernel, torch)
    for request in channel.requests():
        # Together on a GPU, where they wait for one synchronisation; elsewhere each is answered at once.
        size = len(request.cases) if spec.device == "cuda" else 1
        for start in range(0, len(request.cases), size or 1):
            signal.alarm(request.limit_s)  # a hung kernel must not outlive a parent that was killed
            for position, answered in enumerate(runs.answers(request.cases[start : start + size]), start):
                channel.write(respond(position, *answered))
            signal.alarm(0)


class _Runs:
    """Runs groups of cases."""

    def __init__(self, spec: Spec, kernel: Kernel, torch: Any) -> None:
        self._spec, self._kernel, self._torch = spec, kernel, torch

    def answers(self, cases: Sequence[tuple[Case, bool]]) -> list[tuple[Case, Answer, Answer | None]]:
        """Each case with the answer of its first run and, where there was one, of its second."""
        first = self._run([case for case, _ in cases], again=False)
        twice = [
            number
            for number, ((_, forced), answer) in enumerate(zip(cases, first, strict=True))
            if answer.doubtful or (forced and answer.clean)
        ]
        second = dict(zip(twice, self._run([cases[number][0] for number in twice], again=True), strict=True))
        return [(case, first[number], second.get(number)) for number, (case, _) in enumerate(cases)]

    def _run(self, cases: Sequence[Case], again: bool) -> list[Answer]:
        attempts = [self._launched(case, again) for case in cases]
        if cases:
            self._wait()
        return [_NO_MEMORY if attempt is None else attempt.collect() for attempt in attempts]

    def _launched(self, case: Case, again: bool) -> Attempt | None:
        if case.op != self._spec.op:
            broken_frame(f"this worker runs {self._spec.op}, not {case.op}")
        if not case.apart:
            broken_frame("tensors that share memory in part")
        if too_large(case):
            return None
        try:
            attempt = Attempt(case, self._kernel, self._torch, self._spec.torch_device, self._spec.margin, again)
            attempt.launch()
        except (MemoryError, self._torch.OutOfMemoryError):
            return None
        except Exception as error:  # a device that was lost is lost for whatever comes next
            if self._spec.device == "cuda":
                _lose_device(error)
            raise
        return attempt

    def _wait(self) -> None:
        """Until the device is done. An illegal access leaves nothing to go on with: the process ends and says so."""
        if self._spec.device != "cuda":
            return
        try:
            self._torch.cuda.synchronize()
        except Exception as error:
            _lose_device(error)


_NO_MEMORY = Answer(records.NO_MEMORY, {}, (), {})


def _lose_device(error: Exception) -> NoReturn:
    print((str(error).splitlines() or [repr(error)])[0], file=sys.stderr, flush=True)
    os._exit(_LOST_DEVICE_EXIT)
