"""The search: Hypothesis draws, each draw fans out into a batch of cases."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from fuzz.case import Case, CaseError
from fuzz.generate import rms_norm
from fuzz.generate.coverage import Label, Ledger

BATCH = 16
"""cases in one batch: enough to amortise a draw and a message, few enough to keep the progress line moving."""
FAN = 4
"""cases that one draw fans out to."""
STEERED = 3
"""cases of a batch that fill holes of the coverage, while there are any."""
_BATCHES_PER_ROUND = 1000


class InputSpec(Protocol):
    """What an op's module in this package provides."""

    OP: str

    def draws(self) -> st.SearchStrategy[Any]: ...

    def fan_out(self, draw: Any, salt: int, count: int) -> Iterable[Any]: ...

    def steer(self, draw: Any, hole: Label, turn: int) -> Any: ...

    def space(self) -> Mapping[str, tuple[str, ...]]: ...

    def realise(self, draw: Any) -> Case: ...

    def check(self, case: Case) -> None: ...


SPECS: Mapping[str, InputSpec] = {rms_norm.OP: rms_norm}
"""input specs by op."""


def check_case(case: Case) -> None:
    """Raise CaseError where a case from a file does not fit its op."""
    if case.op not in SPECS:
        raise CaseError(f"op: unknown op {case.op!r}; known: {', '.join(SPECS)}")
    SPECS[case.op].check(case)


class StopSearch(BaseException):
    """Raised by the consumer to end the search. Not an Exception, which Hypothesis would take for a failing test."""


class _Escape(BaseException):
    """Carries an error of the consumer past Hypothesis, which would run the batch again to report it."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def space(op: str) -> Mapping[str, tuple[str, ...]]:
    """What a search of `op` should visit."""
    return SPECS[op].space()


def search(op: str, run_seed: int, consume: Callable[[list[Case]], None]) -> None:
    """Hand batches of cases of `op` to `consume` until it raises StopSearch.

    The same op and seed give the same cases in the same order, whatever the speed of the machine. The last cases of
    each batch are steered towards what no case has visited yet, so that nothing is left to chance.
    """
    spec = SPECS[op]
    strategy = spec.draws()
    batches = 0
    ledger = Ledger(spec.space())

    def one_batch(data: st.DataObject) -> None:
        nonlocal batches
        relatives = [
            relative
            for number in range(BATCH // FAN)
            for relative in spec.fan_out(data.draw(strategy), salt=batches * BATCH + number, count=FAN)
        ]
        for place in range(1, STEERED + 1):
            hole = ledger.hole(batches * STEERED + place)
            if hole is not None:
                relatives[-place] = spec.steer(relatives[-place], hole, batches)
        batches += 1
        cases = [spec.realise(relative) for relative in relatives]
        for case in cases:
            ledger.see(case.origin.labels)
        try:
            consume(cases)
        except Exception as error:
            raise _Escape(error) from error

    quiet = settings(
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


def _round_seed(run_seed: int, round_number: int) -> int:
    digest = hashlib.blake2b(f"{run_seed}/{round_number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
