"""A check against the reference itself, run in float64 because no formula is read from it; only on request."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from rich.console import Console

from fuzz.campaign.search.groups import EndsSoonAfter
from fuzz.campaign.search.stopping import RunLimits
from fuzz.core.adapters.registry import expand
from fuzz.core.base.dtypes import NUMPY_DTYPE
from fuzz.core.base.text import counted
from fuzz.core.generate.menus import MENUS
from fuzz.core.generate.observed import words_of
from fuzz.findings.tally import Decided, never_decided, note_open
from fuzz.references.dims import UnreadableError
from fuzz.references.examples import GIVEN as EXAMPLES
from fuzz.references.parameters import name_of, titled
from fuzz.references.replay.cases import DTYPES, WEAKER, Meant, keeping, meant_of
from fuzz.references.replay.oracle import ABLE, NOTHING_PROMISED, Replay, op_of
from fuzz.references.text import identifier
from fuzz.report.wrapping import columns, wrapped_text
from fuzz.tasks.check.function import (
    Arrays,
    Function,
    HereKernel,
    OwnProcess,
    never_given,
    plain_name,
    source_of,
    tuned_by,
)
from fuzz.tasks.check.plan import GIVEN, PATIENCE_S, CheckPlan
from fuzz.tasks.check.reference import named_examples
from fuzz.tasks.check.results import CheckError, CheckFailed, reason_of, told
from fuzz.tasks.replay import run_replay
from oracles.dtypes import DTYPES as ALL_DTYPES
from oracles.op import Op
from oracles.ops import OPS

__tracebackhide__ = told
_AFTER = 48
"""The number of cases that are still tried after the first failing one, to find one with fewer elements."""


@dataclass(frozen=True)
class FunctionReplay:
    """A plain function that is held against a replay of its reference."""

    kernel: Callable[..., Any]
    meant: Meant
    arrays: Arrays

    @property
    def said(self) -> str:
        """A line on the properties of the examples that all cases keep; "" if there are none."""
        kept = words_of(self.meant.kept)
        return f"kept as in {EXAMPLES}: {kept}; any_values=True tries others" if kept else ""

    def run(self, todo: CheckPlan, screen: Console) -> None:
        """Try cases; raise CheckFailed for the smallest failing one, or if no element could be judged."""
        name = name_of(self.kernel)
        op = op_of(self.meant, identifier(name, "kernel"), todo.seed)
        here = self._here(op)
        run = run_replay(
            Replay(self.meant, op), here.targets, todo.seed, RunLimits(todo.max_time, todo.max_cases),
            GIVEN.options.output, enough=EndsSoonAfter(lambda tally: tally.findings, _AFTER), here=here, screen=screen,
            patience=PATIENCE_S,
        )  # fmt: skip
        for failure in run.failures(here.target.kernel.name):
            about = filter(None, (failure.text, self.said, WEAKER, f"again: {todo.command}"))
            lines = [f"FAIL  {name}  {failure.words}", *(f"  {each}" for each in about)]
            raise CheckFailed(wrapped_text("\n".join(lines), columns()), [failure])
        replay, judged, decided = run.replay, run.tally.judged - run.tally.gave_up, Decided()
        for line in run.tally.targets.values():
            note_open(decided, line.decided)
        if (outputs := never_decided(decided)) or not judged:
            never = f" of {' nor '.join(outputs)}" if judged else ""
            cases = counted(replay.cases, "case")
            raise CheckFailed(f"NOTHING WAS JUDGED{never}: no element{never} in {cases} is decided by a replay")
        elements = counted(replay.elements, "element")
        passed = f"{name} passed a replay: {counted(replay.cases, 'case')}, {elements} judged, seed {todo.seed}"
        asked, tensors, bound = self.meant.asked, self._tensors, self._bound
        own = never_given(self.kernel, asked.name, {*(tensors if bound is None else bound), *asked.others}, tensors)
        notes = asked.left_out, self.said, own, replay.came.never(DTYPES), WEAKER
        told = [passed, *(f"  {each}" for each in notes if each)]
        GIVEN.passed += told
        print(wrapped_text("\n".join(told), columns()), file=sys.stderr)

    def _here(self, op: Op) -> OwnProcess:
        """Return the kernel as a target that is called in this process. Its outputs may have any dtypes."""
        source = source_of(self.kernel)
        OPS[op.name] = op
        kernel = HereKernel(
            plain_name(self.kernel) or op.name, op.name, source, self.arrays, NOTHING_PROMISED, ABLE,
            tuned=tuned_by(self.kernel, "cpu"),
        )  # fmt: skip
        names, returns = frozenset(self.meant.asked.dims), tuple(each.name for each in op.outputs)
        call = partial(self._called, {each.name: each.dtype for each in op.outputs})
        function = Function(call, names, {}, returns, str(source.parent.resolve()))
        return OwnProcess([each for each in expand([kernel]) if each.name.place == "cpu"], function, own=self.kernel)

    @property
    def _tensors(self) -> Sequence[str]:
        """The reference's names for its tensors."""
        return [self.meant.asked.called.get(name) or name for name in self.meant.asked.dims]

    @cached_property
    def _bound(self) -> Sequence[str] | None:
        """The kernel's names for the tensors: the reference's names, or, if the kernel lacks one of these, the first of
        its parameters. None if the kernel has no signature."""
        try:
            parameters = [*inspect.signature(self.kernel).parameters]
        except (TypeError, ValueError):
            return None
        return parameters[: len(self._tensors)] if {*self._tensors} - {*parameters} else self._tensors

    def _called(self, dtypes: Mapping[str, str], **given: Any) -> Any:
        values, bound, others = [given[name] for name in self.meant.asked.dims], self._bound, self.meant.asked.others
        known = () if bound is None else inspect.signature(self.kernel).parameters
        constants = {name: value for name, value in others.items() if name in known}
        if bound == self._tensors:
            returned = self.kernel(**dict(zip(bound, values, strict=True)), **constants)
        else:
            returned = self.kernel(*values, **constants)
        flat = [*returned.values()] if isinstance(returned, Mapping) else returned
        flat = [*flat] if isinstance(flat, (list, tuple)) else [flat]
        if len(flat) != len(dtypes):
            raise TypeError(f"returned {counted(len(flat), 'output')}, where the reference has {len(dtypes)}")
        return tuple(self._as(each, dtype) for each, dtype in zip(flat, dtypes.values(), strict=True))

    def _as(self, returned: Any, dtype: str) -> Any:
        if self.arrays == "numpy":
            return np.asarray(returned).astype(NUMPY_DTYPE[dtype])
        import torch

        return torch.as_tensor(returned).detach().to(getattr(torch, ALL_DTYPES[dtype].spelling))


def check_by_replay(
    kernel: Callable[..., Any],
    reference: Callable[..., Any],
    todo: CheckPlan,
    arrays: Arrays,
    shapes: Mapping[str, Any] | str | None,
    example_inputs: Sequence[Any] | Mapping[str, Any] | None,
    values: Mapping[str, str] | str | None,
    fixed: Mapping[str, int] | None,
    dtype: str,
    screen: Console,
    *,
    any_values: bool,
) -> None:
    """Hold a function against a reference that is run in float64. Raises CheckFailed, CheckError and ReplayError."""
    menus = "finite" if values is None else values
    if unknown := [menu for menu in ([menus] if isinstance(menus, str) else menus.values()) if menu not in MENUS]:
        raise CheckError(f"values: {unknown[0]!r} is not one of {', '.join(MENUS)}")
    if dtype not in DTYPES or (arrays == "numpy" and dtype == "bf16"):
        raise CheckError(f"oracle='replay': tensors of {dtype} are not compared with a replay")
    try:
        meant = meant_of(reference, shapes, example_inputs, fixed or {}, menus, (dtype,))
    except UnreadableError as error:
        raise CheckError(f"{titled(reference)}: {error}") from reason_of(error)
    if example_inputs is not None and not any_values:
        called = {name: meant.asked.called.get(name) or name for name in meant.asked.dims}
        meant = keeping(meant, [named_examples(reference, called, example_inputs)], fixed or {})
    FunctionReplay(kernel, meant, arrays).run(todo, screen)
