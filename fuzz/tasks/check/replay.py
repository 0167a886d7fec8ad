"""A check against the reference itself, replayed in float64: for what no formula is read from, and on request alone."""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from fuzz.core.adapters.registry import expand
from fuzz.core.base.capability import Capabilities
from fuzz.core.base.dtypes import NUMPY_DTYPE
from fuzz.core.generate.menus import MENUS
from fuzz.core.generate.observed import words_of
from fuzz.findings.tally import never_decided
from fuzz.references.examples import GIVEN as EXAMPLES
from fuzz.references.examples import structure_of
from fuzz.references.replay.cases import DTYPES, WEAKER, Meant, meant_of
from fuzz.references.replay.oracle import op_of
from fuzz.references.replay.run import Run
from fuzz.report.wrapping import columns, wrapped_text
from fuzz.tasks.check.function import Arrays, Function, HereKernel, OwnProcess, never_given, plain_name, source_of
from fuzz.tasks.check.plan import GIVEN, CheckPlan, Seed, plan
from fuzz.tasks.check.reference import named_examples
from fuzz.tasks.check.results import CheckError, CheckFailed, reason_of, told
from oracles.dtypes import DTYPES as ALL_DTYPES
from oracles.formula.contract import Contract
from oracles.op import Op
from oracles.ops import OPS
from oracles.reference.asked import name_of, titled
from oracles.reference.dims import UnreadableError
from oracles.reference.text import identifier

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
                f"NOTHING WAS JUDGED{never}: no element{never} in {run.cases} cases is decided by a replay"
            )
        passed = f"{name} passed a replay: {run.cases} cases, {run.elements:,} elements judged, seed {todo.seed}"
        asked = self.meant.asked
        tensors = [asked.called.get(name) or name for name in asked.dims]
        own = never_given(self.kernel, asked.name, {*self._names(tensors), *asked.others}, tensors)
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

    def _called(self, dtypes: Mapping[str, str], **given: Any) -> Any:
        given = {name: given[name] for name in self.meant.asked.dims}
        returned = self._kernel_of(given)
        flat = [*returned.values()] if isinstance(returned, Mapping) else returned
        flat = [*flat] if isinstance(flat, (list, tuple)) else [flat]
        if len(flat) != len(dtypes):
            raise TypeError(f"returned {len(flat)} outputs, where the reference has {len(dtypes)}")
        return tuple(self._as(each, dtype) for each, dtype in zip(flat, dtypes.values(), strict=True))

    def _as(self, returned: Any, dtype: str) -> Any:
        if self.arrays == "numpy":
            return np.asarray(returned).astype(NUMPY_DTYPE[dtype])
        import torch

        return torch.as_tensor(returned).detach().to(getattr(torch, ALL_DTYPES[dtype].spelling))

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
