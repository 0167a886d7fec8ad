"""A check against the reference itself, run in float64 because no formula is read from it; only on request."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from fuzz.core.adapters.registry import expand
from fuzz.core.base.capability import Capabilities
from fuzz.core.base.dtypes import NUMPY_DTYPE
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.text import counted
from fuzz.core.generate.menus import MENUS
from fuzz.core.generate.observed import words_of
from fuzz.findings.book import FindingBook
from fuzz.findings.tally import Decided, Tally, never_decided, note_open
from fuzz.references.asked import AskedReference
from fuzz.references.dims import UnreadableError
from fuzz.references.examples import GIVEN as EXAMPLES
from fuzz.references.parameters import name_of, titled
from fuzz.references.parts import parted_of
from fuzz.references.replay.cases import REPLAYED, keeping, meant_of
from fuzz.references.replay.oracle import ABLE, NOTHING_PROMISED, Replay, ReplayFailure, op_of
from fuzz.references.text import identifier
from fuzz.report.wrapping import wrapped_text
from fuzz.tasks.check.function import (
    Function,
    HereKernel,
    OwnProcess,
    never_given,
    plain_name,
    source_of,
    tuned_by,
)
from fuzz.tasks.check.reading import CheckTask
from fuzz.tasks.check.reference import named_examples, spelled
from fuzz.tasks.check.request import Arrays, CheckRequest
from fuzz.tasks.check.results import CheckError, reason_of, told, width
from fuzz.tasks.check.setup import CheckSetup
from oracles.dtypes import DTYPES, FORMATS
from oracles.ops import OPS

__tracebackhide__ = told


@dataclass(frozen=True)
class FunctionReplay:
    """A plain function that is held against a replay of its reference."""

    kernel: Callable[..., Any]
    replay: Replay
    arrays: Arrays
    name: str
    """The kernel's name in reports."""

    @property
    def asked(self) -> AskedReference:
        """The reference that is replayed."""
        return self.replay.meant.asked

    @property
    def said(self) -> Sequence[str]:
        """Lines about what is left out, which properties of the examples are kept, and what a replay does not see."""
        words = words_of(self.replay.meant.kept)
        kept = f"kept as in {EXAMPLES}: {words}; any_values=True tries others" if words else ""
        named = {*(self._tensors if self._bound is None else self._bound), *self.asked.others}
        own = never_given(self.kernel, self.asked.name, named, self._tensors)
        return self.asked.left_out, kept, own, self.replay.meant.guarantee

    def wrong(self, tally: Tally, book: FindingBook, setup: CheckSetup) -> str:
        """Return the text about the first case that fails, or why nothing was judged; '' if all is right."""
        if book.errors:
            return "\n".join(book.errors)
        for failure in self.failures(book)[:1]:
            lines = [f"FAIL  {self.name}  {failure.words}", f"  {failure.text}", f"  again: {setup.command}"]
            return wrapped_text("\n".join(lines), width())
        judged, cases, decided = tally.judged - tally.gave_up, counted(self.replay.cases, "case"), Decided()
        for line in tally.targets.values():
            note_open(decided, line.decided)
        if (outputs := never_decided(decided)) or not judged:
            never = f" of {' nor '.join(outputs)}" if judged else ""
            return f"NOTHING WAS JUDGED{never}: no element{never} in {cases} is decided by a replay"
        return ""

    def failures(self, book: FindingBook) -> Sequence[ReplayFailure]:
        """Return the records of the cases that fail."""
        return [self.replay.failure(each.case, each.judgement) for each in book.buckets.values()]

    def passed(self, setup: CheckSetup) -> str:
        """Return the text about what passed, and what was never drawn."""
        cases, elements = counted(self.replay.cases, "case"), counted(self.replay.elements, "element")
        passed = f"{self.name} passed a replay: {cases}, {elements} judged, seed {setup.seed}"
        return f"{passed}\n  {self.replay.came.never(REPLAYED)}"

    @cached_property
    def here(self) -> OwnProcess:
        """Return the kernel as a target that is called in this process. Its outputs may have any dtypes."""
        op, source = self.replay.op, source_of(self.kernel)
        OPS[op.name] = op
        kernel = HereKernel(
            plain_name(self.kernel) or op.name, op.name, source, self.arrays, NOTHING_PROMISED, ABLE, laws=(),
            tuned=tuned_by(self.kernel, "cpu"),
        )  # fmt: skip
        names, returns = frozenset(self.asked.dims), tuple(each.name for each in op.outputs)
        call = partial(self._called, {each.name: each.dtype for each in op.outputs})
        function = Function(call, names, {}, returns, str(source.parent.resolve()))
        return OwnProcess([each for each in expand([kernel]) if each.name.site == "cpu"], function, own=self.kernel)

    @property
    def _tensors(self) -> Sequence[str]:
        """The reference's names for its tensors."""
        return [self.asked.called.get(name) or name for name in self.asked.dims]

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
        values, bound, others = [given[name] for name in self.asked.dims], self._bound, self.asked.others
        known = {} if bound is None else inspect.signature(self.kernel).parameters
        constants = {name: value for name, value in others.items() if name in known}
        by_place = any(each.kind is inspect.Parameter.POSITIONAL_ONLY for each in known.values())
        if bound == self._tensors and not by_place:
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

        return torch.as_tensor(returned).detach().to(getattr(torch, DTYPES[dtype].spelling))


def replay_task(request: CheckRequest) -> CheckTask:
    """Return the task of a function that is held against a reference, run in float64. Raises CheckError,
    ReplayError."""
    kernel, reference, data = request.kernel, request.reference, request.data
    assert reference is not None
    assert not isinstance(kernel, Kernel)
    name, fixed, arrays = request.calling.name or name_of(kernel), data.fixed or {}, request.calling.arrays
    setup = request.limits.setup(name)
    shapes, menus = data.shapes, data.values or "finite"
    examples: Any = data.example_inputs
    dtypes = data.dtypes
    if (parted := parted_of(reference, shapes, examples, dtypes)).complexes:
        given = {"example_inputs": examples, "dtypes": dtypes}
        reference, shapes, known, menus = parted.asked(reference, shapes, given, menus)
        kernel, examples, dtypes = parted.kernel(kernel, ()), known["example_inputs"], known["dtypes"]
    [dtype, *_] = (request.promises.capabilities or Capabilities()).dtypes
    if unknown := [menu for menu in ([menus] if isinstance(menus, str) else menus.values()) if menu not in MENUS]:
        raise CheckError(f"values: {unknown[0]!r} is not one of {', '.join(MENUS)}")
    if dtype not in REPLAYED or (arrays == "numpy" and not hasattr(np, FORMATS[dtype].spelling)):
        raise CheckError(f"oracle='replay': tensors of {dtype} are not compared with a replay")
    try:
        meant = meant_of(reference, shapes, examples, fixed, menus, (dtype,), spelled(dtypes))
    except UnreadableError as error:
        raise CheckError(f"{titled(reference)}: {error}") from reason_of(error)
    if examples is not None and not data.any_values:
        called = {name: meant.asked.called.get(name) or name for name in meant.asked.dims}
        meant = keeping(meant, [named_examples(reference, called, examples)], fixed)
    held = FunctionReplay(kernel, Replay(meant, op_of(meant, identifier(name, "kernel"), setup.seed)), arrays, name)
    return CheckTask(held.here.targets, setup, held.here, (request.noted, *held.said), replay=held)
