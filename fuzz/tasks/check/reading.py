"""Readers: each makes a task of the arguments of a check. Its kernel may be declared or be a plain function, and an op,
a reference or a replay says what the kernel should compute."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import Target
from fuzz.core.base.capability import DeclarationError
from fuzz.core.base.case import Case
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.selection import globs, matches_any
from fuzz.core.base.verdict import Verdict
from fuzz.core.generate.observed import kept_by, words_of
from fuzz.references.examples import GIVEN as GIVEN_INPUTS
from fuzz.tasks.check.function import NO_OTHERS, OwnProcess, always_of, declared, never_given, spared
from fuzz.tasks.check.request import CheckRequest
from fuzz.tasks.check.results import CheckError, CheckFailed, told
from fuzz.tasks.check.setup import GIVEN, CheckSetup
from oracles.op import Op
from oracles.operand import OpError
from oracles.ops import OPS

if TYPE_CHECKING:
    from fuzz.contracts.accepts import Accepted, Accepts
    from fuzz.findings.book import FindingBook
    from fuzz.findings.tally import Tally
    from fuzz.references.replay.oracle import Replay, ReplayFailure
    from fuzz.tasks.check.reference import ReadReference

__tracebackhide__ = told


class ReplayTelling(Protocol):
    """Tells the results of a check that is judged by a replay, not by a formula."""

    @property
    def replay(self) -> Replay:
        """The replay that judges."""

    def wrong(self, tally: Tally, book: FindingBook, setup: CheckSetup) -> str:
        """Return the text about failures; '' if everything that ran has passed."""

    def failures(self, book: FindingBook) -> Sequence[ReplayFailure]:
        """Return the records of the cases that fail."""

    def passed(self, setup: CheckSetup) -> str:
        """Return the text about what passed."""


@dataclass(frozen=True)
class CheckTask:
    """The task of a check: what it judges, and the lines that it prints about that."""

    targets: Sequence[Target]
    setup: CheckSetup
    here: OwnProcess | None = None
    """The process that runs a plain function: this one; None for a declared kernel."""
    said: Sequence[str] = ()
    """Lines about what was read, what is left out, and how the kernel is called."""
    measures: bool = False
    """Whether no contract is declared for the kernel, so that its arithmetic is measured."""
    taken: Accepted | None = None
    """The extents that the kernel takes, if it refuses others: the search is limited to these. None: it takes all."""
    accepts: str = ""
    """What the kernel accepts beyond what is judged, in words."""
    cases: Iterable[str | Path] = ()
    """Case files, and folders of them, that run first."""
    pack: tuple[str, ...] = ()
    """The words that name the kernel's pack on a command line; without a pack, the file of the check."""
    replay: ReplayTelling | None = field(default=None, repr=False)
    misread: Callable[[Case, Verdict], str] = field(default=lambda case, verdict: "", repr=False)
    """Why a failing case says nothing of the kernel; "" if it does. See `ReadReference.misread`."""

    @property
    def kernel(self) -> Kernel:
        """The kernel, limited to the extents to which the search is limited."""
        target = self.targets[0]
        return (target if self.taken is None else self.taken.narrowed(target)).kernel


def setup_of(request: CheckRequest, targets: Sequence[Target]) -> CheckSetup:
    """Return the setup of a check of these targets."""
    label = targets[0].id if len(targets) == 1 else targets[0].kernel.name
    return request.limits.setup(label, str(targets[0].kernel.source))


def read_task(request: CheckRequest) -> CheckTask:
    """Return the task of a check by a formula. Raises CheckError."""
    read, beside = _read(request) if request.reference is not None else (None, None)
    op = read.op if read is not None else _named(request.op)
    if isinstance(request.kernel, Kernel):
        return _task_of_declared(request, request.kernel, read, op)
    kernel = request.kernel if read is None else read.in_parts(request.kernel)
    return _task_of_function(request, kernel, read, beside, op)


def _read(request: CheckRequest) -> tuple[ReadReference, Accepts | None]:
    """Return the reference that was read, and what the kernel was seen to accept if it declares nothing, else None."""
    from fuzz.tasks.check.reference import read, tried

    reference, kernel, data, promises = request.reference, request.kernel, request.data, request.promises
    assert reference is not None
    if isinstance(kernel, Kernel):
        promises = replace(promises, capabilities=kernel.capabilities, contract=kernel.contract)
        return read(reference, data, promises, request.calling.arrays), None
    found = read(reference, data, promises, request.calling.arrays)
    if not promises.is_measured or (data.shapes is not None and GIVEN.asked is not None):
        return found, None
    beside = tried(found.in_parts(kernel), found, promises.capabilities, request.calling)
    # A failure on something that no example has is excused. Without examples, whatever raises is excused.
    excused = {"raises"} if data.example_inputs is None else {"raises", "wrong values"}
    if data.shapes is None and beside is not None and excused & {*beside.ranks.values()}:
        data = replace(data, shapes=found.of_rank(data.example_inputs))
        found = read(reference, data, promises, request.calling.arrays)
    return found, beside


def _task_of_declared(request: CheckRequest, kernel: Kernel, read: ReadReference | None, op: str | None) -> CheckTask:
    if op not in (None, kernel.op):
        raise CheckError(f"op={op!r}: {kernel.name} is declared as a kernel of {kernel.op}")
    try:
        kernel.check_op()
    except DeclarationError as error:
        raise CheckError(str(error)) from None
    targets = _chosen(kernel, request.targets)
    said = (read.said, read.left_out) if read is not None else ()
    found = CheckTask(targets, setup_of(request, targets), said=said, cases=request.limits.cases)
    return found if read is None else replace(found, misread=read.misread)


def _task_of_function(
    request: CheckRequest, kernel: Callable[..., Any], read: ReadReference | None, beside: Accepts | None,
    op: str | None,
) -> CheckTask:  # fmt: skip
    if op is None or op not in OPS:
        raise CheckError(f"op={op!r}: name the op that it is a kernel of: {', '.join(OPS)}")
    promises, called, constants = request.promises, NO_OTHERS, NO_OTHERS
    if read is not None:
        promises = replace(promises, contract=read.contract, capabilities=read.capabilities(promises.capabilities))
        called, constants = read.called(kernel), read.constants(kernel)
    declaration, function = declared(kernel, op, promises, request.calling, called, constants)
    if read is not None:
        from fuzz.tasks.check.reference import lengthened, with_laws

        declaration = with_laws(declaration, read) if request.promises.contract is None else declaration
        declaration = lengthened(declaration, function, read)
        shorter = read.derived.widens - {name for name, _ in declaration.able.mixed}
        function = replace(function, widens=shorter, shortens=read.derived.shortens)
    kept = f"kept as in {GIVEN_INPUTS}: {words_of(kept_by(OPS[op]))}" if kept_by(OPS[op]) else ""
    of_kernel, left_out = (read.said_of(kernel), read.left_out) if read is not None else (kept, "")
    named = {*OPS[op].params, *(each.name for each in OPS[op].operands), *function.called.values(), *function.constants}
    first, own = "; ".join(filter(None, (of_kernel, request.noted))), never_given(kernel, op, named, always_of(OPS[op]))
    targets = [spared(each, kernel) for each in _chosen(declaration, request.targets)]
    here = OwnProcess(targets, function, read.takes if read is not None else None)
    measures, taken = read is not None and request.promises.is_measured, None
    if measures and GIVEN.asked is None:
        from fuzz.contracts.accepts import accepted

        taken = accepted(here, targets[0])
    found = CheckTask(
        targets, setup_of(request, targets), here, (first, left_out, own), measures, taken,
        beside.text if beside is not None else "", request.limits.cases,
    )  # fmt: skip
    return found if read is None else replace(found, misread=read.misread)


def _named(op: Op | str | None) -> str | None:
    """Return the name of an op. An `Op` is registered in OPS, if it is not there yet."""
    if not isinstance(op, Op):
        return op
    from fuzz.core.adapters.pack import make_known

    try:
        make_known(op)
    except OpError as error:
        raise CheckError(str(error)) from None
    return op.name


def _chosen(kernel: Kernel, patterns: Sequence[str]) -> tuple[Target, ...]:
    """Return the kernel's targets that the call and pytest's options ask for. Raises CheckFailed if there are none."""
    every = expand(
        [replace(kernel)]
    )  # a copy: each check is a session of its own and must read the kernel's files anew
    chosen = every
    for wanted in (globs(patterns), globs(GIVEN.options.targets)):
        chosen = tuple(target for target in chosen if not wanted or matches_any(target.id, wanted))
    if not chosen:
        asked = " and ".join(repr(",".join(each)) for each in (patterns, GIVEN.options.targets) if each)
        raise CheckFailed(f"NOTHING RAN: no target matches {asked}; there are {', '.join(t.id for t in every)}")
    return chosen
