"""`fuzz.check`: a search for a failure of one kernel, from inside a test."""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console

from fuzz.campaign.search.runner import EndsSoonAfter
from fuzz.campaign.search.stopping import SessionLimits
from fuzz.campaign.session import Session
from fuzz.campaign.starting import runnable
from fuzz.core.adapters.python_kernel import Device
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import NotRun, Target
from fuzz.core.base import __version__
from fuzz.core.base.capability import Capabilities
from fuzz.core.base.case import CaseError
from fuzz.core.base.errors import UsageError
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.selection import globs, matches_any
from fuzz.core.base.text import counted
from fuzz.core.execute.spent import Spent
from fuzz.core.laws.registry import declared as declared_laws
from fuzz.core.transport.python.foreign import Maker
from fuzz.findings.book import FindingBook
from fuzz.findings.tally import Tally
from fuzz.report import console, events
from fuzz.report.platforms import taken_lines
from fuzz.report.progress import LiveLine
from fuzz.report.totals import kernels_judged, not_exercised, undeclared_by_op
from fuzz.report.wrapping import columns, wrapped_text
from fuzz.tasks.check.function import called_with
from fuzz.tasks.check.reading import CheckTask, read_task
from fuzz.tasks.check.request import Arrays, Calling, CheckLimits, CheckRequest, GivenData, Promises
from fuzz.tasks.check.results import (
    CheckError,
    CheckFailed,
    NotRunWarning,
    explaining,
    meant_words,
    passed_line,
    report,
    told,
    told_first,
    width,
)
from fuzz.tasks.check.setup import GIVEN, PATIENCE_S, Checked, CheckSetup, Seed, origin_words, running_test
from fuzz.tasks.task import Data, Driven, Task, drive
from oracles.formula.contract import Contract
from oracles.op import Op
from oracles.ops import OPS

if TYPE_CHECKING:
    from fuzz.campaign.corpus.folder import Kept

__all__ = ["CheckError", "CheckFailed", "check"]

__tracebackhide__ = told
_AFTER_FINDING = 64
"""The number of cases that a check still runs after its first failure, to find one that is easier to understand."""
_WHOLE = 100
"""A check of at least this many cases also tries the longest extents. It is the usual number of cases of a check."""
_AFTER_REPLAYED = 48
"""The same number as `_AFTER_FINDING` for a check by a replay, whose cases take longer."""
_AGAIN = (
    "  note          it fails on a kept case, or on one that failed the last time: these are run first, and the search "
    "was left out"
)
_LEAST_S, _QUEUE = 0.5, 2
"""The least seconds for explaining one finding, and the most findings among which the remaining time is shared: the
first of them may use half of the time."""


def check(
    kernel: Kernel | Callable[..., Any],
    *,
    op: Op | str | None = None,
    reference: Callable[..., Any] | None = None,
    oracle: Literal["formula", "replay"] = "formula",
    shapes: Mapping[str, Any] | str | None = None,
    example_inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    values: Mapping[str, str] | str | None = None,
    fixed: Mapping[str, int] | None = None,
    any_values: bool = False,
    dtypes: Mapping[str, Any] | None = None,
    contract: Contract | Mapping[str, Any] | None = None,
    capabilities: Capabilities | None = None,
    laws: tuple[str, ...] = ("rerun",),
    returns: Sequence[str] = (),
    arrays: Arrays | Literal["jax"] | Maker | None = None,
    device: Device = "cpu",
    name: str = "",
    targets: Sequence[str] = (),
    cases: Iterable[str | Path] = (),
    max_cases: int | None = None,
    max_time: float | None = None,
    seed: Seed = None,
) -> None:
    """Search for inputs that `kernel` gets wrong; raise CheckFailed with the whole report if there are any.

    A declared kernel runs in worker processes, on all its targets or those that match `targets`. A plain function is
    called in this process with keyword arguments named like the tensors and parameters of `op`, the name of an op or an
    Op. The tensors are torch's, or arrays of NumPy or JAX if the function calls these libraries and not torch. `arrays`
    states the library, or is a function that makes other arrays from NumPy's. The function writes the outputs that it
    has parameters for and returns the others; `returns` names the elements of a tuple that it returns.

    In place of an op, `reference` is a function of torch tensors that says what the kernel should compute and is read
    into an op. `shapes` names the dimensions of its tensors, such as {"x": "... n", "w": "n"}, or `example_inputs` are
    inputs like those to draw. `values` says what values are drawn; with "any", NaN, infinities and overflow are judged,
    too. `dtypes` says which tensors hold integers or flags, such as {"a": "int8"}. `fixed` are extents that never
    change, such as {"k": 3}. A property that all examples have, such as being triangular, holds for all cases unless
    `any_values` is set. A reference that no formula can be read from may be run in float64 itself with
    `oracle="replay"`, a weaker judge: see the page on references. The kernel's parameters correspond to those of the
    reference by name, else by position. `contract` is what the kernel promises, or a dict of only those fields that
    differ from what any undeclared kernel is held to, such as {"expanded": True}.

    `cases` are case files or folders of them; these cases run first. The number of further cases is set by pytest's
    options, else by `max_cases` and `max_time` (seconds), else by the Hypothesis profile. By default each test has a
    seed that never changes; `seed` sets another one, or "random". A check that passes prints on stderr what it ran.
    """
    kernel, own, noted = called_with(kernel, arrays, device)
    request = CheckRequest(
        kernel, op, reference, oracle, GivenData(shapes, example_inputs, values, fixed, any_values, dtypes),
        Promises(contract, capabilities, laws), Calling(returns, own, device, name), targets,
        CheckLimits(cases, max_cases, max_time, seed), noted,
    )  # fmt: skip
    with _misuse_is_said():
        if request.oracle == "formula":
            checked(read_task(request))
        elif GIVEN.asked is None:  # no case file has a case of a replay
            from fuzz.tasks.check.replay import replay_task

            checked(replay_task(request))


@dataclass(frozen=True)
class CheckResults:
    """The results of a check."""

    driven: Driven
    session: Session
    known: Sequence[Kept]
    """The cases that were run before the search: those in the files that the call names, and those in `earlier`, which
    failed when the check last ran."""
    earlier: Sequence[Kept]
    seconds: float
    compared: str = ""
    """The line on what a usual test says of the kernel, if it fails."""


def checked(task: CheckTask) -> None:
    """Judge a task and tell the results. A declared kernel runs in workers, a plain function in this process (`here`).
    Raises CheckFailed with what was found, shrunk and explained, unless something was judged and all of it passed."""
    if GIVEN.asked is not None:
        GIVEN.asked.append(Checked(tuple(task.targets), task.here))
        return
    _tell(task, _run(task))


def _run(task: CheckTask) -> CheckResults:
    """Judge known cases, then those of a search. Explain what fails, and store it."""
    setup, op = task.setup, task.kernel.op
    whole = task.replay is None and (setup.max_cases is None or setup.max_cases >= _WHOLE)
    earlier = remembered(setup, op)
    data = Data([*kept(task.cases, op), *earlier], OPS[op].kept if op in OPS else {})
    replay = None if task.replay is None else task.replay.replay
    judged = Task(task.targets, data, task.measures, whole, task.taken, replay)
    explain_s, option = explaining()
    began = time.monotonic()
    book, scope = judged.book(GIVEN.options.output, setup.seed), judged.scope(declared_laws([task.kernel]))
    session = Session(
        judged.searched, book, scope, setup.seed, SessionLimits(setup.max_time, setup.max_cases), searched=(),
        here=task.here, screen=_screen(), patience=PATIENCE_S, tells_facts=False,
    )  # fmt: skip
    with session:
        after = _AFTER_FINDING if replay is None else _AFTER_REPLAYED
        driven = drive(judged, session, enough=EndsSoonAfter(lambda tally: tally.findings, after))
        for each in book.buckets.values():
            if misread := task.misread(each.case, each.judgement.verdict):
                raise CheckError(misread)
        if explain_s and book.buckets and replay is None:
            _explain(task, driven, session, explain_s, option)
        elif explain_s and book.buckets and replay is not None:
            from fuzz.references.replay.causes import explain_replay

            explain_replay(replay, session.pool, book, explain_s)
        compared = ""
        if book.buckets and replay is None:
            from fuzz.campaign.tolerance import usual_test

            compared = usual_test(session.pool, driven.targets, book)
    if not task.pack and (paths := [each.path for each in book.buckets.values() if each.path is not None]):
        from fuzz.tasks.check.retrieval import sign

        for path in paths:
            sign(path)
    if replay is None:
        remember(setup, book, earlier)
    return CheckResults(driven, session, data.known, earlier, time.monotonic() - began, compared)


def _explain(task: CheckTask, driven: Driven, session: Session, seconds: float, option: str) -> None:
    """Shrink and explain the failures that were found."""
    from fuzz.explain.diagnosis import TimeShares, new_workers
    from fuzz.findings.explainer import Explainer

    here = task.here
    workers = new_workers if here is None else lambda targets, limit: nullcontext(here.only(targets))
    line = LiveLine(session.err)
    try:
        bounds = TimeShares(_LEAST_S, queue=_QUEUE, clock=Spent(), option=option)
        explainer = Explainer(session.pool, driven.targets, session.book, bounds, say=line.show, workers=workers)
        explainer.explain_all(seconds)
    finally:
        line.stop()


def _tell(task: CheckTask, results: CheckResults) -> None:
    """Tell the result of a check: print a line on stderr if all passed, else raise CheckFailed."""
    setup, driven, session, replay = task.setup, results.driven, results.session, task.replay
    book, tally, pool, targets = session.book, session.tally, session.pool, driven.targets
    measured = (driven.measuring.text, task.accepts) if driven.measuring is not None else ()
    beyond = (each.text for each in driven.beyond.values())
    said = [*task.said, *measured, *beyond, task.taken.text if task.taken is not None else ""]
    stale = sum(each.found is not None and each.found.is_of_another_formula(each.case) for each in results.known)
    kept_of = f"  note          {counted(stale, 'kept case')} of another {task.kernel.op}"
    changed = f"{kept_of}: it or its reference has changed" if stale else ""
    about = [f"  {each}" for each in (*said, *taken_lines(runnable(task.targets))) if each]
    if replay is None:
        _tell_undeclared(targets, tally)
        words = task.pack or origin_words()
        wrong = report(tally, book, pool, targets, setup, words, interrupted=session.interruption.wanted)
    else:
        wrong = replay.wrong(tally, book, setup)
    if wrong:
        again = _AGAIN if driven.again and not book.errors else ""
        meant = meant_words(book) if task.measures else ""
        notes = "\n".join(filter(None, [results.compared, again, changed, meant, *about]))
        told_of = [each.told for each in told_first(book)] if replay is None else replay.failures(book)
        text = "\n".join(filter(None, [wrong, wrapped_text(notes, width())]))
        raise CheckFailed(text, [] if book.errors else told_of)
    line = passed_line(task.kernel.name, targets, tally, setup, len(results.earlier), results.seconds)
    line = line if replay is None else replay.passed(setup)
    GIVEN.passed += [line, *(f"  {each}" for each in said if each)]
    print(wrapped_text("\n".join(filter(None, [line, changed, *about])), columns()), file=sys.stderr)
    for target, status in pool.statuses.items():
        if isinstance(status, NotRun):
            warnings.warn(NotRunWarning(f"{target} did not run: {status.reason}"), stacklevel=4)


def _screen() -> Console:
    """Return the console on which a check shows its progress: a terminal, or events for a program."""
    if GIVEN.console is not None:
        return GIVEN.console()
    return console.progress() if sys.stderr.isatty() or events.wanted() else console.silent()


@contextmanager
def _misuse_is_said() -> Iterator[None]:
    """Turn a UsageError, which the user can mend, into a CheckError."""
    try:
        yield
    except UsageError as error:
        raise CheckError(str(error)) from None


def _tell_undeclared(targets: Sequence[Target], tally: Tally) -> None:
    """Print what was not exercised because the kernel does not declare it. In pytest, the summary tells that once."""
    found = undeclared_by_op(kernels_judged(targets, tally))
    new = {op: kernels for op, kernels in found.items() if not {*kernels} <= {*GIVEN.undeclared.get(op, ())}}
    for op, kernels in new.items():
        GIVEN.undeclared.setdefault(op, {}).update(kernels)
    if not running_test():
        print(wrapped_text("\n".join(not_exercised(new)), columns()), end="\n" if new else "", file=sys.stderr)


def kept(cases: Iterable[str | Path], op: str) -> Iterator[Kept]:
    """Yield the cases of `op` in the files that a call names, one by one or by their folder."""
    for path in map(Path, cases):
        from fuzz.campaign.corpus.folder import kept_cases, load

        for each in kept_cases(path) if path.is_dir() else (load(path),):
            if each.case.op == op:
                yield each


def remembered(setup: CheckSetup, op: str) -> list[Kept]:
    """Return the cases that the Hypothesis database keeps for this check; entries that no check wrote are left out."""
    found, known = [], sorted(setup.database.fetch(setup.key)) if setup.database is not None else ()
    if known:
        from fuzz.campaign.corpus.folder import Kept
        from fuzz.findings import casefile, document
    for value in known:
        try:
            case, how = casefile.from_json(document.parsed(value.decode()))
        except (UnicodeDecodeError, CaseError):
            continue
        if case.op == op:
            found.append(Kept(Path("of the Hypothesis database"), case, how))
    return found


def remember(setup: CheckSetup, book: FindingBook, earlier: Sequence[Kept]) -> None:
    """Keep the smallest case of each bucket in the database. Delete cases that pass now or have a smaller stand-in."""
    if setup.database is None or not (earlier or book.buckets):
        return
    from fuzz.campaign.corpus.folder import Kept
    from fuzz.findings.casefile import FoundRecord, formula_of

    failing = set()
    for bucket in book.buckets.values():
        how = FoundRecord(
            bucket.judgement.target, bucket.verdict, setup.seed, __version__, bucket.judgement.broken_law,
            formula=formula_of(bucket.case.op),
        )  # fmt: skip
        failing.add(_encoded(Kept(Path(), bucket.case, how)))
    for value in failing:
        setup.database.save(setup.key, value)
    for value in {_stored for each in earlier if (_stored := _encoded(each)) not in failing}:
        setup.database.delete(setup.key, value)


def _encoded(kept: Kept) -> bytes:
    from fuzz.findings.casefile import to_json

    return json.dumps(to_json(kept.case, kept.found), sort_keys=True).encode()


@dataclass(frozen=True)
class PackTarget:
    """A target of a kernel in a pack, together with the kernel's other targets."""

    target: Target
    folder: Path
    siblings: tuple[Target, ...] = field(repr=False)

    @property
    def id(self) -> str:
        """The target's id, such as 'c-mine@native:gcc-O2'."""
        return self.target.id

    @property
    def kernel(self) -> Kernel:
        """The target's kernel, as it is declared."""
        return self.target.kernel

    def why_skipped(self) -> str | None:
        """Return why the target cannot run here, if another target of the same kernel can; else None. (A kernel that
        cannot run on any target fails its check.)"""
        reason = self.target.unavailable()
        elsewhere = any(sibling.unavailable() is None for sibling in self.siblings)
        return reason if reason is not None and elsewhere else None

    def check(
        self,
        *,
        cases: Iterable[str | Path] = (),
        max_cases: int | None = None,
        max_time: float | None = None,
        seed: Seed = None,
    ) -> None:
        """Check this target alone; the arguments are those of `fuzz.check`."""
        reason = self.target.unavailable()
        if reason is not None:
            raise CheckFailed(f"NOTHING RAN: {self.kernel.name} runs nowhere here; {self.id}: {reason}")
        limits = CheckLimits(cases, max_cases, max_time, seed)
        setup = limits.setup(self.id, str(self.kernel.source))
        with _misuse_is_said():
            checked(CheckTask((self.target,), setup, cases=cases, pack=("--pack", str(self.folder))))


def pack_targets(folder: Path) -> list[PackTarget]:
    """Return the pack's targets that pytest's options ask for. Raises CheckError if there are none."""
    from fuzz.core.adapters.pack import PackError
    from fuzz.core.adapters.pack import load as load_pack

    try:
        pack = load_pack(folder)
    except PackError as error:
        raise CheckError(str(error)) from None
    wanted = globs(GIVEN.options.targets)
    found = []
    for kernel in pack.kernels:
        siblings = expand([kernel])
        found += [
            PackTarget(target, folder, siblings) for target in siblings if not wanted or matches_any(target.id, wanted)
        ]
    if not found:
        raise CheckError(f"--kernelfuzz-targets {','.join(GIVEN.options.targets)}: no target of {folder} matches")
    return found
