"""A check against the reference itself, replayed in float64: for what no formula is read from, and on request alone."""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from fuzz.core.generate.menus import MENUS
from fuzz.core.generate.observed import words_of
from fuzz.findings.tally import Decided, never_decided, note_open
from fuzz.references.asked import name_of, titled
from fuzz.references.dims import UnreadableError
from fuzz.references.examples import GIVEN as EXAMPLES
from fuzz.references.examples import structure_of
from fuzz.report.wrapping import columns, wrapped_text
from fuzz.tasks.check.function import Arrays, never_given
from fuzz.tasks.check.plan import GIVEN, CheckPlan, Seed, plan
from fuzz.tasks.check.reference import named_examples
from fuzz.tasks.check.replay_cases import DTYPES, WEAKER, Comparison, Meant, ReplayCase, compared, meant_of, tensor_of
from fuzz.tasks.check.replay_ranges import Came
from fuzz.tasks.check.results import CheckError, CheckFailed, reason_of, told

__tracebackhide__ = told
_AFTER = 48
"""Once a case has failed, these many more are tried, for one with fewer elements."""


@dataclass(frozen=True)
class Replay:
    """A kernel that is held against a replay."""

    kernel: Callable[..., Any]
    meant: Meant
    arrays: Arrays

    @property
    def said(self) -> str:
        """What is kept of what examples always are, in a line; "" if nothing is."""
        kept = words_of(self.meant.kept)
        return f"kept as in {EXAMPLES}: {kept}; any_values=True tries others" if kept else ""

    def run(self, todo: CheckPlan) -> None:
        """Try cases; raise CheckFailed for the smallest that fails."""
        name, began = name_of(self.kernel), time.monotonic()
        failed: tuple[ReplayCase, str] | None = None
        cases, judged, last, came, decided = 0, 0, 0, Came(), Decided()
        for case in self.meant.cases(todo.seed):
            over = todo.max_time is not None and time.monotonic() - began > todo.max_time
            if over or cases == todo.max_cases or (failed is not None and cases > last + _AFTER):
                break
            cases += 1
            came.note(case.arrays, case.dtype)
            found = self._compared(case)
            judged += found.judged
            note_open(decided, found.decided)
            if found.wrong and (failed is None or case.elements < failed[0].elements):
                failed, last = (case, found.wrong), last or cases
        if failed is not None:
            case, wrong = failed
            lines = [f"FAIL  {name}  {wrong}", *(f"  {each}" for each in (case.text, self.said, WEAKER) if each)]
            lines.append(f"  again: {todo.command}")
            raise CheckFailed(wrapped_text("\n".join(lines), columns()))
        if (outputs := never_decided(decided)) or not judged:
            never = f" of {' nor '.join(outputs)}" if judged else ""
            raise CheckFailed(f"NOTHING WAS JUDGED{never}: no element{never} in {cases} cases is decided by a replay")
        passed = f"{name} passed a replay: {cases} cases, {judged:,} elements judged, seed {todo.seed}"
        asked = self.meant.asked
        tensors = [asked.called.get(name) or name for name in asked.dims]
        own = never_given(self.kernel, asked.name, {*self._names(tensors), *asked.others}, tensors)
        notes = asked.left_out, self.said, own, came.never(DTYPES).text, WEAKER
        told = [passed, *(f"  {each}" for each in notes if each)]
        GIVEN.passed += told
        print(wrapped_text("\n".join(told), columns()), file=sys.stderr)

    def _compared(self, case: ReplayCase) -> Comparison:
        wanted = self.meant.replays(case.arrays)
        if wanted is None:
            return Comparison("")
        try:
            returned = self._called(case)
        except Exception as error:
            return Comparison(f"raised {type(error).__name__}: {' '.join(str(error).split())[:200]}")
        return compared(wanted, returned, case.dtype)

    def _called(self, case: ReplayCase) -> Sequence[NDArray[Any]]:
        import torch

        given: Mapping[str, Any] = {name: tensor_of(each, case.dtype) for name, each in case.arrays.items()}
        if self.arrays == "numpy":
            given = {name: each.numpy() for name, each in given.items()}
        returned = self._kernel_of(given)
        flat = [*returned.values()] if isinstance(returned, Mapping) else returned
        flat = [*flat] if isinstance(flat, (list, tuple)) else [flat]
        return [torch.as_tensor(each).detach().to(torch.float64).numpy() for each in flat]

    def _names(self, tensors: Sequence[str]) -> Sequence[str]:
        """What the kernel calls the tensors, which it is given by their places where it calls one otherwise."""
        try:
            parameters = [*inspect.signature(self.kernel).parameters]
        except (TypeError, ValueError):
            return tensors
        return tensors if {*tensors} <= {*parameters} else parameters[: len(tensors)]

    def _kernel_of(self, given: Mapping[str, Any]) -> Any:
        asked = self.meant.asked
        called = {asked.called.get(name) or name: each for name, each in given.items()}
        try:
            parameters = {*inspect.signature(self.kernel).parameters}
        except (TypeError, ValueError):
            return self.kernel(*given.values())
        constants = {name: value for name, value in asked.others.items() if name in parameters}
        if {*called} <= parameters:
            return self.kernel(**called, **constants)
        return self.kernel(*given.values(), **constants)


@dataclass(frozen=True)
class Wanted:
    """What is said of a check against a replay."""

    shapes: Mapping[str, Any] | str | None
    example_inputs: Sequence[Any] | Mapping[str, Any] | None
    values: Mapping[str, str] | str | None
    fixed: Mapping[str, int] | None
    dtypes: Sequence[str]
    arrays: Arrays
    seed: Seed
    max_cases: int | None
    max_time: float | None
    any_values: bool


def check_by_replay(kernel: Callable[..., Any], reference: Callable[..., Any], wanted: Wanted) -> None:
    """Hold a function against a reference that is run in float64. Raises CheckFailed and CheckError."""
    if GIVEN.asked is not None:
        return
    values = "finite" if wanted.values is None else wanted.values
    if unknown := [menu for menu in ([values] if isinstance(values, str) else values.values()) if menu not in MENUS]:
        raise CheckError(f"values: {unknown[0]!r} is not one of {', '.join(MENUS)}")
    dtype = wanted.dtypes[0]
    if dtype not in DTYPES or (wanted.arrays == "numpy" and dtype == "bf16"):
        raise CheckError(f"oracle='replay': tensors of {dtype} are not compared with a replay")
    try:
        meant = meant_of(reference, wanted.shapes, wanted.example_inputs, wanted.fixed or {}, values, (dtype,))
    except UnreadableError as error:
        raise CheckError(f"{titled(reference)}: {error}") from reason_of(error)
    if (examples := wanted.example_inputs) is not None and not wanted.any_values:
        own, dims = meant.asked.called, meant.asked.dims
        called = {name: own.get(name) or name for name in dims}
        sample = named_examples(reference, called, examples)
        kept, square = structure_of(called, dims, [sample], wanted.fixed or {})
        meant = replace(meant, kept=kept, square=square)
    Replay(kernel, meant, wanted.arrays).run(plan(name_of(kernel), wanted.seed, wanted.max_cases, wanted.max_time))
