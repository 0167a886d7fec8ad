"""The search: Hypothesis draws, each draw fans out into a batch of cases."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from fuzz.base.capability import SMALL, Capability
from fuzz.base.case import Case
from fuzz.base.draw import Draw
from fuzz.base.kernel import Kernel
from fuzz.generate.aliasing import aliased, aliased_as
from fuzz.generate.big import due
from fuzz.generate.capabilities import anything, out_of_capability
from fuzz.generate.coverage import Label, Ledger
from fuzz.generate.plan import plan
from fuzz.generate.realise import realise
from fuzz.generate.relatives import LENGTH, sequence
from fuzz.generate.sketch import BACKEND, Sketch, fan_out, sketches
from fuzz.generate.space import space_of
from fuzz.generate.steering import nudged, steer

BATCH = 16
"""The number of cases in one batch: enough to amortise a draw and a message, few enough to keep the progress line
moving."""
FAN = 4
"""The number of cases that one draw fans out to."""
RELATIVES = 8
"""A guide may add at most this many cases to a batch."""
STEERED = 10
"""So many cases of a batch fill coverage gaps, while there are any; the others only go near them."""
SEQUENCE_EVERY = 2
"""One batch in this many begins with a call sequence in place of its first fan."""
_BATCHES_PER_ROUND = 1000


class Proposer(Protocol):
    """Knows from earlier cases which ones to try next."""

    def drawn(self, case: Case, draw: Draw, capability: Capability) -> None:
        """Told of a case that is about to be run, and how it was made."""
        ...

    def relatives(self, count: int) -> list[tuple[Draw, Capability]]:
        """Up to `count` draws that are worth a try."""
        ...


class StopSearch(BaseException):
    """Raised by the consumer to end the search. Not an Exception, which Hypothesis would take for a failing test."""


class _Escape(BaseException):
    """Carries an error of the consumer past Hypothesis, which would run the batch again to report it."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def search(
    op: str,
    run_seed: int,
    consume: Callable[[list[Case]], None],
    kernels: Iterable[Kernel] = (),
    big_first: bool = False,
    sequences: bool = True,
    guide: Proposer | None = None,
) -> None:
    """Hand batches of cases of `op` to `consume` until it raises StopSearch.

    The cases are within what `kernels` of that op take, drawn for each kernel alike: for what many of them declare more
    often than for what one does. Without any they are within all that the op allows. The same op, seed and kernels'
    declarations give the same cases in the same order, whatever the speed of the machine and whichever kernels really
    run. The last cases of each batch are steered towards what no case for that declaration has visited yet, so that
    nothing is left to chance. Cases that are big in one coordinate come once, after the batches that
    `fuzz.generate.big` names or, with `big_first`, at once. Without `sequences` all cases are drawn one by one. With a
    `guide`, which is told of every draw, each batch ends with up to RELATIVES cases more: these have no number, and
    follow from the judgements that the guide was told of. All others stay as they are.
    """
    of_kernels = [kernel.capability for kernel in kernels if kernel.op == op] or [anything(op)]
    capabilities = tuple(dict.fromkeys(of_kernels))
    strategy = sketches(of_kernels, out_of_capability(capabilities))
    wanted = {capability: Ledger(space_of([capability])) for capability in capabilities}
    everyone = Ledger(space_of(capabilities))
    batches = made = 0

    def hand_over(cases: list[Case], more: Sequence[Case] = ()) -> None:
        nonlocal made
        made += len(cases)
        consume([*cases, *more])

    def numbered(cases: Iterable[Case]) -> list[Case]:
        return [replace(c, origin=replace(c.origin, number=made + i)) for i, c in enumerate(cases, start=1)]

    def one_batch(data: st.DataObject) -> None:
        nonlocal batches
        drawn = [
            relative
            for number in range(BATCH // FAN)
            for relative in fan_out(data.draw(strategy), salt=batches * BATCH + number, count=FAN)
        ]
        cases, plain = list[Case](), drawn[:-STEERED]
        if sequences and batches % SEQUENCE_EVERY == 0:
            first, plain = plain[0], plain[LENGTH:]
            cases = numbered(sequence(plan(first), first.capability, batches // SEQUENCE_EVERY))
        for sketch in plain:
            cases.append(_told(plan(_nudged(sketch)), sketch.capability, made + len(cases) + 1))
        for place, sketch in enumerate(drawn[-STEERED:]):
            cases.append(_steered(sketch, batches * STEERED + place, made + len(cases) + 1))
        batches += 1
        visits = [(case, _visited(case)) for case in cases]
        for capability, ledger in wanted.items():
            if ledger.is_open:
                for case, labels in visits:
                    if capability.refusal(case) is None:
                        ledger.see(labels)
                        everyone.see(labels)
        # The guide's own have no number and fill no coverage gap: the others must not depend on what was judged.
        relatives = guide.relatives(RELATIVES) if guide is not None else []
        try:
            hand_over(cases, [_told(draw, capability) for draw, capability in relatives])
            for case in due(op, capabilities, batches - 1, big_first):
                hand_over(numbered([case]))
        except Exception as error:
            raise _Escape(error) from error

    def _told(draw: Draw, capability: Capability, number: int = 0) -> Case:
        case = aliased(realise(draw, number), capabilities)
        if guide is not None:
            guide.drawn(case, draw, capability)
        return case

    def _nudged(sketch: Sketch) -> Sketch:
        ledger = wanted.get(sketch.capability)
        return nudged(sketch, ledger) if ledger is not None and ledger.is_open else sketch

    def _steered(sketch: Sketch, turn: int, number: int) -> Case:
        waiting = [capability for capability, ledger in wanted.items() if ledger.is_open]
        if not waiting:
            return _told(plan(sketch), sketch.capability, number)
        # By turns the one that takes most, whose cases most others are given too, and the one that lacks most.
        capability = max(waiting, key=lambda each: wanted[each].size if turn % 2 else wanted[each].breadth)
        gaps = wanted[capability].wanted(turn, everyone)
        draw = steer(sketch, capability, wanted[capability], gaps, turn)
        kind, value = gaps[0]
        case = realise(draw, number)
        case = aliased_as(case, value, turn) if kind == "memory" else case
        if guide is not None:
            guide.drawn(case, draw, capability)
        return case

    quiet = settings(
        backend=BACKEND,
        max_examples=_BATCHES_PER_ROUND,
        database=None,
        derandomize=False,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    round_number = 0
    try:
        while True:
            test = given(st.data())(one_batch)
            quiet(seed(_round_seed(run_seed, round_number))(test))()
            round_number += 1
    except StopSearch:
        return
    except _Escape as escape:
        raise escape.error from None


def _visited(case: Case) -> list[Label]:
    """What a case counts for. One that slow targets are not given leaves to others what is not about its size."""
    labels, small = case.origin.labels, SMALL.holds(case)
    return [label for label in labels if small or label[0] in ("n", "rows") or label[0].startswith("tail of ")]


def _round_seed(run_seed: int, round_number: int) -> int:
    digest = hashlib.blake2b(f"{run_seed}/{round_number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
