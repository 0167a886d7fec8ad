"""Finds the case to blame if a worker's process ended, hung, or was left changed. Every case gets an outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.base.text import counted
from fuzz.core.execute.worker import ATTEMPTS, Conduct, Encoded, LostError, Worker
from fuzz.core.transport import records
from fuzz.core.transport.ending import Ending
from fuzz.core.transport.frames import FrameError
from fuzz.core.transport.steps import Steps

_UNEXPLAINED = 5
"""The number of times that a target's worker may be killed or hang, although a rerun of its cases does not, before its
kernel is blamed. An operator, or a machine short of memory, ends a worker once or twice. Chosen."""
_AFTER_DEATH = "sent to its worker together with a case that ended the process"
_ATTRIBUTIONS = 3
"""The number of searches for the case that changed the process; after that the frame's last case is named. Chosen."""


class Blame:
    """Runs cases on a worker, and runs some of them again if that shows which case is to blame."""

    def __init__(self, worker: Worker, conduct: Conduct) -> None:
        self._worker = worker
        self._conduct = conduct
        self._target = worker.target.id

    def run(self, cases: Sequence[Encoded]) -> Steps[list[Outcome]]:
        """Return one outcome per case, in order, whatever the kernel does. Raise FrameError, an internal error, if the
        worker was sent something that is not a case of its op."""
        outcomes: list[Outcome] = []
        try:
            while len(outcomes) < len(cases):
                start = len(outcomes)
                ending = yield from self._worker.run(cases[start:], outcomes)
                rest = cases[len(outcomes) :]
                if len(outcomes) > start:
                    yield from self._attribute_changes(cases[start : len(outcomes)], outcomes)
                if ending is not None and (self._worker.target.batched or ending.unplaced) and len(rest) > 1:
                    yield from self._find_culprits(rest, ending, outcomes)
                elif ending is not None:
                    outcomes.append((yield from self._judge_culprit(rest[0], ending)))
        except LostError as error:
            missing = Outcome(self._target, Status.NOT_RUN, detail=str(error))
            outcomes += [missing] * (len(cases) - len(outcomes))
        return outcomes

    def _attribute_changes(self, cases: Sequence[Encoded], outcomes: list[Outcome]) -> Steps[None]:
        """If the process was found changed, go on in a new one and find the case that changed it. A worker checks most
        of its process only after the last case of a frame."""
        changed = [place for place, each in enumerate(outcomes[-len(cases) :]) if _lasting(each)]
        if not changed:
            if any(each.changes for each in outcomes[-len(cases) :]):  # leaked memory stays lost
                self._worker.renew()
            return
        self._worker.renew()
        last = len(cases) - 1
        if changed[0] < last or last == 0 or self._conduct.attributions == _ATTRIBUTIONS:
            return
        self._conduct.attributions += 1
        again: list[Outcome] = []
        yield from self._worker.run(cases, again, records.AUDIT_EACH)
        self._worker.renew()
        culprit = next((place for place, each in enumerate(again) if _lasting(each)), None)
        found = outcomes[-1].changes
        if culprit is None:
            words = f"; after one of {counted(len(cases), 'call')}, and not when they were made again"
            changes = tuple(replace(each, words=each.words + words) for each in found)
            outcomes[-1] = replace(outcomes[-1], changes=changes)
        elif culprit != last:
            outcomes[-1] = replace(outcomes[-1], changes=tuple(each for each in found if not each.lasts))
            place = len(outcomes) - len(cases) + culprit
            outcomes[place] = replace(outcomes[place], changes=again[culprit].changes)

    def _find_culprits(self, cases: Sequence[Encoded], first: Ending, outcomes: list[Outcome]) -> Steps[None]:
        """Run cases one by one to find those that ended the process. Which ones did is unknown: cases were launched
        together, or answers were lost."""
        start, restarts = len(outcomes), self._conduct.restarts
        for case in cases:
            ending = yield from self._worker.run([case], outcomes)
            if ending is not None:
                outcomes.append((yield from self._judge_culprit(case, ending)))
                if outcomes[-1].status is Status.DIED and self._conduct.searches:
                    # Cases of one program are sent together, and often end it in the same way. Running each of them
                    # again would cost two processes, which take seconds to start on a GPU. In tests, no wrong hint of
                    # an address was reported within 20 s.
                    left = Outcome(self._target, Status.NOT_RUN, detail=_AFTER_DEATH)
                    outcomes += [left] * (len(cases) - (len(outcomes) - start))
                    return
            else:
                yield from self._attribute_changes([case], outcomes)
        if any(outcome.status in (Status.DIED, Status.HUNG) for outcome in outcomes[start:]):
            return
        if first.early:
            self._conduct.doubts += 1
            return
        self._conduct.restarts = restarts
        if not self._is_excused(first):
            detail = f"{first} (among {counted(len(cases), 'case')} sent together; each of them alone returned)"
            outcomes[start] = self._blamed(first, detail)

    def _judge_culprit(self, culprit: Encoded, first: Ending) -> Steps[Outcome]:
        """Run the case without an answer again, alone in a fresh process, and return its outcome. Raise LostError.

        A kernel that exhausts the memory is killed from outside too, but every time, so this is its outcome.
        """
        before, alone = self._worker.recent, list[Outcome]()
        for _ in range(ATTEMPTS):
            again = yield from self._worker.run([culprit], alone, patient=True)
            if again is None or not again.from_outside:
                break
        if again is not None and again.refuses_frame:
            raise FrameError(again.said)  # by a process whose kernel was not called yet
        if again is not None:
            limit = f"no answer within {self._worker.limit:g} s, and again alone in a fresh worker (see --case-limit)"
            return self._blamed(again, limit if again.hung else str(again))
        if first.early:
            self._conduct.doubts += 1
            return alone[0]
        why = "alone in a fresh worker it returned"
        if first.from_outside or first.hung:
            if (yield from self._comes_again([*before, culprit], first)):
                why += f", but not after the {counted(len(before), 'call')} before it"
            elif self._is_excused(first):
                return alone[0]
            else:
                why += f"; this came {_UNEXPLAINED + 1} times"
        return self._blamed(first, f"{first} ({why})")

    def _comes_again(self, calls: Sequence[Encoded], first: Ending) -> Steps[bool]:
        """Return whether fresh processes that run these calls end in the same way as the `first` one. Two processes are
        tried if the first one may have been killed from outside."""
        for _ in range(1 if first.hung else 2):
            self._worker.renew()
            again = yield from self._worker.run(calls, [], patient=True)
            if again is None or (again.hung, again.code) != (first.hung, first.code):
                return False
        return True

    def _is_excused(self, ending: Ending) -> bool:
        """Whether someone else, or a busy machine, may have ended the process. This is excused only a few times."""
        excused = (ending.from_outside or ending.hung) and self._conduct.restarts < _UNEXPLAINED
        self._conduct.restarts += excused
        return excused

    def _blamed(self, ending: Ending, detail: str) -> Outcome:
        """Return the outcome of the case that is to blame. A kernel that hangs again and again gets no more cases,
        because other targets would wait for it."""
        self._conduct.hangs += ending.hung
        if self._conduct.given_up:
            self._worker.give_up(self._conduct.given_up)
        return Outcome(self._target, Status.HUNG if ending.hung else Status.DIED, detail=detail)


def _lasting(outcome: Outcome) -> bool:
    """Whether the kernel left its process changed in a way that affects later calls."""
    return any(change.lasts for change in outcome.changes)
