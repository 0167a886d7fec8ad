"""A check against the reference itself, replayed in float64: for what no formula is read from, and on request alone."""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any

import numpy as np

from fuzz.core.adapters.registry import expand
from fuzz.core.base.capability import Capabilities
from fuzz.core.base.dtypes import NUMPY_DTYPE
from fuzz.core.base.text import counted
from fuzz.core.generate.menus import MENUS
from fuzz.core.generate.observed import words_of
from fuzz.findings.tally import never_decided
from fuzz.references.dims import UnreadableError
from fuzz.references.examples import GIVEN as EXAMPLES
from fuzz.references.examples import structure_of
from fuzz.references.parameters import name_of, titled
from fuzz.references.replay.cases import DTYPES, WEAKER, Meant, meant_of
from fuzz.references.replay.oracle import op_of
from fuzz.references.replay.run import Run
from fuzz.references.text import identifier
from fuzz.report.wrapping import columns, wrapped_text
from fuzz.tasks.check.function import Arrays, Function, HereKernel, OwnProcess, never_given, plain_name, source_of
from fuzz.tasks.check.plan import GIVEN, CheckPlan
from fuzz.tasks.check.reference import named_examples
from fuzz.tasks.check.results import CheckError, CheckFailed, reason_of, told
from oracles.dtypes import DTYPES as ALL_DTYPES
from oracles.formula.contract import Contract
from oracles.op import Op
from oracles.ops import OPS

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
        name, began, most = name_of(self.kernel), time.monotonic(), todo.max_cases
        drawn = self.meant.cases(todo.seed)
        first = next(drawn)
        op = op_of(self.meant, self.meant.outputs(first), f"replayed_{identifier(name, 'kernel')}"[:31])
        here = self._here(op)
        run = Run(self.meant, op, [here.target], (), todo.seed)
        [line], last = run.lines.values(), 0
        for case in chain([first], drawn):
            over = todo.max_time is not None and time.monotonic() - began > todo.max_time
            if over or run.cases == most or (line.findings and run.cases > last + _AFTER) or line.broken:
                break
            run.batch(here, [case])
            last = last or run.cases * bool(line.findings)
        if line.broken:
            raise CheckFailed(wrapped_text(f"NOTHING RAN: {name}: {line.broken}", columns()))
        for failure in run.smallest.values():
            lines = [f"FAIL  {name}  {failure.words}"]
            lines += [f"  {each}" for each in (failure.case.text, self.said, WEAKER) if each]
            raise CheckFailed(wrapped_text("\n".join([*lines, f"  again: {todo.command}"]), columns()))
        judged = line.judged - line.gave_up
        if (outputs := never_decided(line.decided)) or not judged:
            never = f" of {' nor '.join(outputs)}" if judged else ""
            raise CheckFailed(
                f"NOTHING WAS JUDGED{never}: no element{never} in {counted(run.cases, 'case')} is decided by a replay"
            )
        elements = counted(run.elements, "element")
        passed = f"{name} passed a replay: {counted(run.cases, 'case')}, {elements} judged, seed {todo.seed}"
        asked, tensors, bound = self.meant.asked, self._tensors, self._bound
        own = never_given(self.kernel, asked.name, {*(tensors if bound is None else bound), *asked.others}, tensors)
        notes = asked.left_out, self.said, own, run.came.never(DTYPES).text, WEAKER
        told = [passed, *(f"  {each}" for each in notes if each)]
        GIVEN.passed += told
        print(wrapped_text("\n".join(told), columns()), file=sys.stderr)

    def _here(self, op: Op) -> OwnProcess:
        """The kernel, called in this process as one of the op: what it returns may have any dtypes."""
        source = source_of(self.kernel)
        OPS.pop(op.name, None)  # of an earlier check: kernels are declared while nobody knows it, as it has no formula
        kernel = HereKernel(
            plain_name(self.kernel) or op.name,
            op.name,
            source,
            self.arrays,
            Contract(platform="none"),
            Capabilities(dtypes=DTYPES),
        )
        OPS[op.name] = op
        names, returns = frozenset(self.meant.asked.dims), tuple(each.name for each in op.outputs)
        call = partial(self._called, {each.name: each.dtype for each in op.outputs})
        function = Function(call, names, {}, returns, str(source.parent.resolve()))
        return OwnProcess(expand([kernel])[0], function)

    @property
    def _tensors(self) -> Sequence[str]:
        """What the reference calls its tensors."""
        return [self.meant.asked.called.get(name) or name for name in self.meant.asked.dims]

    @cached_property
    def _bound(self) -> Sequence[str] | None:
        """What the kernel calls the tensors, which it is given by their places where it calls one otherwise; None where
        it has no signature."""
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
        own, dims = meant.asked.called, meant.asked.dims
        called = {name: own.get(name) or name for name in dims}
        sample = named_examples(reference, called, example_inputs)
        kept, square = structure_of(called, dims, [sample], fixed or {})
        meant = replace(meant, kept=kept, square=square)
    Replay(kernel, meant, arrays).run(todo)
