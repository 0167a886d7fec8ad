"""Failures that need earlier calls: recognising them, and finding the fewest and simplest calls that still show them.
Everything here asks one question, `fails(history)`: does the case fail after these calls in a new process?"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import groupby

from fuzz.core.base.case import Case, CaseError
from fuzz.core.base.draw import Frame
from fuzz.core.base.dtypes import shortest
from fuzz.core.base.probe import unprobed, without_probe
from fuzz.core.base.text import counted
from fuzz.core.base.validity import check_case
from fuzz.core.execute.spent import Spent
from fuzz.explain.explanation import Earlier, Unsteady
from fuzz.explain.shrink.reduction import Reduction, reduced_case

Fails = Callable[[Sequence[Case]], bool]

_TRIALS = 200
"""The most new processes that are started to find the smallest history."""
_SECONDS = 60.0
"""The most processor seconds for finding it; on a slow target the history may stay larger than necessary."""
_REPEATED = 1024
"""The number of calls of the case itself that are tried if a worker's kept calls (the latest 256) do not show the
failure. So many calls may overflow a counter, fill a buffer, or switch to faster code."""
_LATER_S = 3.0
"""The seconds after which a call is tried again. Chosen."""
_COUNTED = 64
"""The number of calls of the case itself among which one is sought that fails alone, as every seventh may."""
_MANY = 8
"""If more earlier calls than this are needed, perhaps only their number matters."""


class Need(Enum):
    """The condition for a failure to show again."""

    NOTHING = "fails alone"
    HISTORY = "needs history"
    UNKNOWN = "does not repeat"


@dataclass(frozen=True)
class Recognised:
    """What a failing case needs to fail again; for HISTORY, also the calls that must come before it."""

    need: Need
    history: tuple[Case, ...] = ()
    calls: int = 0
    """The number of known calls before the failure."""
    on: bool = False
    """Whether each call after the history fails too; tried with further calls of the case itself."""
    unsteady: Unsteady | None = None
    """How often the same call gives another result, if the failure does not repeat because of this."""
    seconds: float = 0.0
    """The seconds after its first call in a new process at which the case fails; 0 if time does not decide."""

    def earlier(self, case: Case) -> Earlier | None:
        """Return what must come before the case, in words; None if that is not known."""
        if self.need is not Need.HISTORY and not self.seconds:
            return None
        is_same = all(call.digest == case.digest for call in self.history)
        said = "" if is_same else _listed(self.history, case)
        return Earlier(len(self.history), said, self.on, self.seconds)


@dataclass
class _Asked:
    """A function that asks `fails`, but answers no after a number of questions or seconds."""

    fails: Fails
    left: int = field(default_factory=lambda: _TRIALS)
    spent: Spent = field(default_factory=Spent)

    def __call__(self, history: Sequence[Case]) -> bool:
        self.left -= 1
        return self.left >= 0 and self.spent() < _SECONDS and self.fails(history)


def recognise(
    fails: Fails,
    case: Case,
    before: Sequence[Case],
    changing: Callable[[], Unsteady | None] = lambda: None,
    later: Callable[[float], bool] = lambda seconds: False,
    first: Callable[[int], int] = lambda calls: 0,
) -> Recognised:
    """Return whether `case` fails alone, fails only after some of the calls `before` it, or does not fail again.
    `changing` returns how the result of the same call varies; if it does, a failure after other calls is chance.
    `later` returns whether the case fails that many seconds after its first call in a new process, and `first` the
    number of the first call that fails, of a number of calls of the case in a new process."""
    if fails(()):
        return Recognised(Need.NOTHING)
    unsteady = changing()
    if unsteady is not None:
        return Recognised(Need.UNKNOWN, calls=len(before), unsteady=unsteady)
    trials = _Asked(fails)
    # Many calls take a while, too, so that time is tried before their number.
    if not trials((case,)) and all(later(_LATER_S) for _ in range(2)):
        return Recognised(Need.UNKNOWN, calls=len(before), seconds=_LATER_S)
    shown = next((calls for calls in _windows(before) if trials(calls)), None)
    if shown is None and fails(()):
        return Recognised(Need.NOTHING, calls=len(before))  # it comes and goes by itself, without earlier calls
    repeated = _repeated(trials, case, _REPEATED if shown is None else len(shown))
    if repeated is None and shown is None and (number := first(_COUNTED)) > 1 and trials((case,) * (number - 1)):
        repeated = (case,) * (number - 1)
    if repeated is None and shown is None:
        return Recognised(Need.UNKNOWN, calls=len(before))
    history = repeated or simplest_calls(trials, fewest_calls(trials, shown or ()), case)
    return Recognised(Need.HISTORY, history, len(before), _goes_on(trials, case, history))


def _goes_on(fails: Fails, case: Case, history: Sequence[Case]) -> bool:
    """Whether only the number of calls matters: the case fails after more calls of itself, too."""
    alone = all(call.digest == case.digest for call in history)
    return alone and all(fails((case,) * (len(history) + more)) for more in (1, 2, len(history) + 1))


def _windows(before: Sequence[Case]) -> Iterator[tuple[Case, ...]]:
    """Yield all calls, then the latest half of them, and so on: a later call may repair what an earlier one broke."""
    calls = tuple(before)
    while calls:
        yield calls
        calls = calls[(len(calls) + 1) // 2 :]


def _repeated(fails: Fails, case: Case, most: int) -> tuple[Case, ...] | None:
    """Return the fewest calls of the case itself after which it fails, as for a kernel that counts its calls; None if
    it does not fail after `most`, or if `most` is small."""
    if most <= _MANY or not fails((case,) * most):
        return None
    passes, failing = 0, most
    while failing - passes > 1:
        middle = (passes + failing) // 2
        passes, failing = (passes, middle) if fails((case,) * middle) else (middle, failing)
    return (case,) * failing


def fewest_calls(fails: Fails, calls: Sequence[Case]) -> tuple[Case, ...]:
    """Return a subset of the failing `calls` from which no call can be left out (Zeller and Hildebrandt's ddmin)."""
    kept, parts = tuple(calls), 2
    while len(kept) > 1:
        size = -(-len(kept) // parts)
        chunks = [kept[start : start + size] for start in range(0, len(kept), size)]
        rests = [kept[:start] + kept[start + size :] for start in range(0, len(kept), size)]
        smaller = next((each for each in reversed(chunks) if fails(each)), None)
        if smaller is not None:
            kept, parts = smaller, 2
            continue
        smaller = next((each for each in rests if len(rests) > 2 and fails(each)), None)
        if smaller is not None:
            kept, parts = smaller, max(parts - 1, 2)
        elif parts >= len(kept):
            break
        else:
            parts = min(2 * parts, len(kept))
    return kept


def simplest_calls(fails: Fails, calls: Sequence[Case], case: Case) -> tuple[Case, ...]:
    """Return the calls, each simplified as far as the failure remains, starting with the latest."""
    kept = list(calls)
    for place in reversed(range(len(kept))):
        for _ in range(_TRIALS):
            simpler = next(
                (each for each in _simpler(kept[place], case) if fails([*kept[:place], each, *kept[place + 1 :]])), None
            )
            if simpler is None:
                break
            kept[place] = simpler
    return tuple(kept)


def _simpler(call: Case, case: Case) -> Iterator[Case]:
    """Yield simpler calls, the simplest first: `case` itself, `case` with one parameter of the call, then the call with
    fewer elements, then with plain values."""
    candidates = [case, *_one_changed(call, case)]
    for each in candidates:
        if each.digest == call.digest:
            return  # nothing is simpler
        yield each
    frame = Frame(call)
    if not frame.fits():
        return
    whole = tuple((0, extent) for extent in frame.outer)
    for how in (
        Reduction(tuple((0, min(extent, 1)) for extent in frame.outer), (0, frame.n)),
        Reduction(whole, (0, min(1, frame.n))),
        Reduction(whole, (0, frame.n // 2)),
        Reduction(whole, (0, max(frame.n - 1, 0))),
        Reduction(whole, (0, frame.n), values=dict.fromkeys(call.inputs, "ones")),
    ):
        with contextlib.suppress(CaseError):
            smaller = reduced_case(call, how)
            check_case(smaller)
            if smaller.digest != call.digest:
                yield smaller


def _one_changed(call: Case, case: Case) -> Iterator[Case]:
    """Yield `case` with one parameter as in `call`."""
    for name in case.params:
        if name != "axis" and name in call.params and call.params[name] != case.params[name]:
            yield replace(case, params={**case.params, name: call.params[name]})


def need_line(found: Recognised, case: Case) -> str:
    """Return a sentence about a failure that does not show by itself; '' if it fails alone."""
    if found.need is Need.HISTORY:
        how = "needs history: passes alone in a fresh process, fails there"
        on = f", and from call {len(found.history) + 1} on" if found.on else ""
        why = "so it keeps state from call to call, or reads memory that an earlier call left its values in"
        return f"{history_line(found.history, case, how)}{on}; {why}"
    if found.seconds:
        why = "so it looks at a clock, or at what else time changes"
        return f"needs time: passes in a fresh process, fails there {found.earlier(case)}; {why}"
    if found.unsteady is not None:
        causes = "threads that race give such results, memory that nobody set, and numbers that are drawn"
        return f"comes and goes: {found.unsteady}; {causes}"
    if found.need is Need.UNKNOWN:
        after = (
            f", and after the {counted(found.calls, 'call before it that is', 'calls before it that are')} kept"
            if found.calls
            else ""
        )
        return (
            f"does not repeat: passes alone in a fresh process{after}; it comes and goes, or needs still earlier calls"
        )
    return ""


def history_line(history: Sequence[Case], case: Case, how: str) -> str:
    """Return a sentence with the calls before the case, each by how it differs from it; equal ones are counted."""
    return f"{how} after {counted(len(history), 'earlier call')}: {_listed(history, case)}"


def _listed(history: Sequence[Case], case: Case) -> str:
    told = [(differences(call, case), len(list(equal))) for call, equal in groupby(history)]
    return "; ".join(f"{what}, {n} times" if n > 1 else what for what, n in told)


def differences(call: Case, case: Case) -> str:
    """Return the differences between an earlier call and the failing one, in words."""
    if call.op != case.op:
        return f"op {call.op}"
    given, wanted = without_probe(call.params), without_probe(case.params)
    names = sorted(name for name in {*given, *wanted} if given.get(name) != wanted.get(name))
    found = [f"{name} {_value(given.get(name))}" for name in names]
    mine, theirs = call.tensors, case.tensors
    for name in dict.fromkeys((*mine, *theirs)):
        if name not in mine or name not in theirs:
            found.append(f"{'no ' if name not in mine else 'with '}{name}")
            continue
        one, other = mine[name], theirs[name]
        if one.dtype != other.dtype:
            found.append(f"{name} {one.dtype}")
        if one.layout.shape != other.layout.shape:
            found.append(f"{name} {list(one.layout.shape)}")
        elif one.layout != other.layout:
            found.append(f"layout of {name}")
    if not found:
        found = ["other values"] if unprobed(call).digest != unprobed(case).digest else ["the same call"]
    return ", ".join(found)


def _value(value: float | int | None) -> str:
    return "not given" if value is None else shortest(value)
