"""A function called in this process, in the same padded and poisoned memory as a kernel in its worker.

A crash of it ends this process: what may crash is declared as a kernel, and runs in a worker.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from fuzz.adapters.target import Attestation, NotRun, Target
from fuzz.base.capability import Dispatch
from fuzz.base.case import Case
from fuzz.base.outcome import Outcome
from fuzz.execute.pool import Batch, outcomes_of
from fuzz.transport import records
from fuzz.transport.frames import decode_response, outcome_of
from fuzz.transport.python.attempt import Answer, Attempt, respond
from fuzz.transport.python.kernel import MARGIN_BYTES
from fuzz.transport.python.slab import too_large
from fuzz.uses.check.function import Function


class OwnProcess:
    """Stands for a worker pool of one target."""

    def __init__(self, target: Target, function: Function) -> None:
        reason = target.unavailable()
        self.statuses: Mapping[str, Attestation | NotRun] = {} if reason is None else {target.id: NotRun(reason)}
        self._target = target
        self._function = function
        self._dispatch = Dispatch(target.kernel.capability, None)

    def submit(self, cases: Sequence[Case], without: Collection[str] = (), for_all: Collection[int] = ()) -> Batch:
        """Run them, now."""
        batch = Batch(tuple(cases))
        indices = [index for index, case in enumerate(cases) if self._dispatch.accepts(case)]
        if indices and not self.statuses and self._target.id not in without:
            done: Future[list[Outcome]] = Future()
            done.set_result([self._outcome(cases[index]) for index in indices])
            batch.parts.append((self._target.id, indices, done))
        return batch

    def collect(self, batch: Batch) -> list[dict[str, Outcome]]:
        """What became of them."""
        return outcomes_of(batch)

    def renew(self) -> None:
        """Nothing: what the function remembers stays in this process."""

    def _outcome(self, case: Case) -> Outcome:
        import torch

        if too_large(case):
            first, second = Answer(records.NO_MEMORY, {}, (), {}), None
        else:
            first = self._answer(torch, case, again=False)
            second = self._answer(torch, case, again=True) if first.doubtful else None
        answer = respond(0, case, first, second)
        header, payload = answer[: records.RESPONSE.size], answer[records.RESPONSE.size :]
        return outcome_of(decode_response(header, payload), case, self._target.id)

    def _answer(self, torch: Any, case: Case, again: bool) -> Answer:
        device = "cuda" if self._target.name.place == "cuda" else "cpu"
        try:
            attempt = Attempt(case, self._function, torch, device, MARGIN_BYTES, again)
            attempt.launch()
            if device == "cuda":
                torch.cuda.synchronize()
        except (MemoryError, torch.OutOfMemoryError):
            return Answer(records.NO_MEMORY, {}, (), {})
        except RuntimeError as error:
            if device != "cuda":
                raise
            # An illegal access: the device is lost for this process.
            return Answer(records.RAISED, {}, (), {}, str(error).splitlines()[0])
        return attempt.collect()
