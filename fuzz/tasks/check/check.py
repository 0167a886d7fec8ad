"""`fuzz.check`: a search for a failure of one kernel, from inside a test."""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from rich.console import Console

from fuzz.campaign.corpus.folder import Kept, kept_cases, load
from fuzz.campaign.search.groups import EndsSoonAfter
from fuzz.campaign.search.stopping import RunLimits
from fuzz.campaign.search.turn_runner import Terms
from fuzz.campaign.session import Session
from fuzz.campaign.starting import runnable
from fuzz.core.adapters.python_kernel import Device
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import NotRun, Target
from fuzz.core.base import __version__
from fuzz.core.base.capability import Capabilities, DeclarationError
from fuzz.core.base.case import CaseError
from fuzz.core.base.errors import UsageError
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.selection import globs, matches_any
from fuzz.core.base.text import counted
from fuzz.core.execute.spent import Spent
from fuzz.core.generate.observed import kept_by, words_of
from fuzz.core.laws.registry import declared as declared_laws
from fuzz.core.transport.python.foreign import Maker
from fuzz.findings.book import FindingBook, book_in
from fuzz.findings.tally import Tally
from fuzz.references.examples import GIVEN as GIVEN_INPUTS
from fuzz.references.parameters import name_of
from fuzz.report import console, events
from fuzz.report.platforms import taken_lines
from fuzz.report.progress import LiveLine
from fuzz.report.totals import kernels_judged, not_exercised, undeclared_by_op
from fuzz.report.wrapping import columns, wrapped_text
from fuzz.tasks.check.function import (
    NO_OTHERS,
    Arrays,
    OwnProcess,
    always_of,
    declared,
    meant_by,
    never_given,
    of_jax,
    of_numpy,
    spared,
)
from fuzz.tasks.check.plan import GIVEN, PATIENCE_S, Checked, CheckPlan, Seed, origin_words, plan, running_test
from fuzz.tasks.check.results import (
    CheckError,
    CheckFailed,
    NotRunWarning,
    explaining,
    meant_words,
    passed_line,
    report,
    told,
    width,
)
from fuzz.tasks.task import Data, Task, drive
from oracles.formula.contract import Contract
from oracles.op import Op
from oracles.operand import OpError
from oracles.ops import OPS

if TYPE_CHECKING:
    from fuzz.contracts.accepts import Accepted

__all__ = ["CheckError", "CheckFailed", "check", "check_targets"]

__tracebackhide__ = told
_AFTER_FINDING = 64
"""The number of cases that a check still runs after its first finding, to find a case that is easier to understand."""
_WHOLE = 100
"""The number of cases from which on a check also tries the longest extents: the usual number of a check."""
_AGAIN = (
    "  note          it fails on a kept case, or on one that failed the last time: these are run first, and the search "
    "was left out"
)
_NOTED = {
    each: f"the kernel is given arrays of {words}, which it calls: arrays='torch' gives it tensors"
    for each, words in {"numpy": "NumPy", "jax": "JAX"}.items()
}
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
    too. `fixed` are extents that never change, such as {"k": 3}. A property that all examples have, such as being
    triangular, holds for all cases unless `any_values` is set. A reference that no formula can be read from may be run
    in float64 itself with `oracle="replay"`, a weaker judge: see the page on references. The kernel's parameters
    correspond to those of the reference by name, else by position. `contract` is what the kernel promises, or a dict of
    only those fields that differ from what any undeclared kernel is held to, such as {"expanded": True}.

    `cases` are case files or folders of them; these cases run first. The number of further cases is set by pytest's
    options, else by `max_cases` and `max_time` (seconds), else by the Hypothesis profile. By default each test has a
    seed that never changes; `seed` sets another one, or "random". A check that passes prints on stderr what it ran.
    """
    found, measures, beside, noted = None, False, None, ""
    if arrays is None:
        arrays = "torch" if isinstance(kernel, Kernel) or device != "cpu" else meant_by(kernel)
        noted = _NOTED.get(arrays, "")
    if not callable(arrays) and arrays not in (known := (*get_args(Arrays), "jax")):
        words = ", ".join(known)
        raise CheckError(f"arrays={arrays!r}: it is one of {words}, or a function of an array of NumPy's")
    if callable(arrays) or arrays == "jax":
        made = arrays if callable(arrays) else of_jax()
        kernel, arrays = kernel if isinstance(kernel, Kernel) else of_numpy(kernel, made), "numpy"
    if oracle not in ("formula", "replay"):
        raise CheckError(f"oracle={oracle!r}: it is 'formula' or 'replay'")
    if oracle == "replay":
        if reference is None or isinstance(kernel, Kernel) or op is not None or contract is not None:
            raise CheckError("oracle='replay': a plain function is held against a reference, without op and contract")
        if GIVEN.asked is not None:
            return
        from fuzz.tasks.check.replay import check_by_replay

        if noted:
            print(wrapped_text(noted, columns()), file=sys.stderr)
        todo, [dtype, *_] = plan(name_of(kernel), seed, max_cases, max_time), (capabilities or Capabilities()).dtypes
        with _misuse_is_said():
            said_of = shapes, example_inputs, values, fixed
            check_by_replay(kernel, reference, todo, arrays, *said_of, dtype, _screen(), any_values=any_values)
        return
    if reference is not None:
        if op is not None:
            raise CheckError(f"op={op!r}: a kernel is held against an op or a reference, not both")
        from fuzz.tasks.check.reference import read, tried

        if isinstance(kernel, Kernel):
            capabilities, contract = kernel.capabilities, kernel.contract
        measures, given = not isinstance(contract, Contract), (values, capabilities, arrays, contract, fixed)
        found = read(reference, shapes, example_inputs, *given, any_values=any_values)
        if not isinstance(kernel, Kernel) and measures and (shapes is None or GIVEN.asked is None):
            beside = tried(kernel, found, capabilities, returns, arrays, device)
            # A failure on something that no example has is excused. Without examples, whatever raises is excused.
            excused = {"raises"} if example_inputs is None else {"raises", "wrong values"}
            if shapes is None and beside is not None and excused & {*beside.ranks.values()}:
                shapes = found.of_rank(example_inputs)
                found = read(reference, shapes, example_inputs, *given, any_values=any_values)
        op, contract, capabilities = found.op, found.contract, found.capabilities(capabilities)
    op = _named(op)
    if isinstance(kernel, Kernel):
        if op not in (None, kernel.op):
            raise CheckError(f"op={op!r}: {kernel.name} is declared as a kernel of {kernel.op}")
        try:
            kernel.check_op()
        except DeclarationError as error:
            raise CheckError(str(error)) from None
        said = _lines(found.said, found.left_out) if found else ""
        chosen = _chosen(kernel, targets)
        check_targets(chosen, RunLimits(max_time, max_cases), seed, cases, said=said)
        return
    if op is None or op not in OPS:
        raise CheckError(f"op={op!r}: name the op that it is a kernel of: {', '.join(OPS)}")
    declaration, function = declared(
        kernel, op, contract, capabilities, laws, tuple(returns), arrays, device, name,
        found.called(kernel) if found else NO_OTHERS, found.constants(kernel) if found else NO_OTHERS,
    )  # fmt: skip
    kept = f"kept as in {GIVEN_INPUTS}: {words_of(kept_by(OPS[op]))}" if kept_by(OPS[op]) else ""
    of_kernel, left_out = (found.said_of(kernel), found.left_out) if found else (kept, "")
    named = {*OPS[op].params, *(each.name for each in OPS[op].operands), *function.called.values(), *function.constants}
    said = _lines(
        "; ".join(filter(None, (of_kernel, noted))), left_out, never_given(kernel, op, named, always_of(OPS[op]))
    )
    configured = [spared(each, kernel) for each in _chosen(declaration, targets)]
    here = OwnProcess(configured, function, found.takes if found else None)
    taken = None
    if measures and GIVEN.asked is None:
        from fuzz.contracts.accepts import accepted

        taken = accepted(here, configured[0])
    check_targets(
        configured, RunLimits(max_time, max_cases), seed, cases, here=here, said=said, measures=measures, taken=taken,
        accepts=beside.text if beside is not None else "",
    )  # fmt: skip


def _lines(*lines: str) -> str:
    """Return the lines about what was read, left out and measured, for a report to print once, passing or failing."""
    return "\n  ".join(filter(None, lines))


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
    every = expand([replace(kernel)])  # a copy: each check is a run of its own and must read the kernel's files anew
    chosen = every
    for wanted in (globs(patterns), globs(GIVEN.options.targets)):
        chosen = tuple(target for target in chosen if not wanted or matches_any(target.id, wanted))
    if not chosen:
        asked = " and ".join(repr(",".join(each)) for each in (patterns, GIVEN.options.targets) if each)
        raise CheckFailed(f"NOTHING RAN: no target matches {asked}; there are {', '.join(t.id for t in every)}")
    return chosen


def check_targets(
    targets: Sequence[Target],
    limits: RunLimits,
    seed: Seed,
    cases: Iterable[str | Path] = (),
    pack_option: tuple[str, ...] = (),
    here: OwnProcess | None = None,
    said: str = "",
    measures: bool = False,
    taken: Accepted | None = None,
    accepts: str = "",
) -> None:
    """Check targets of one kernel on known cases, then search. A plain function runs in the process `here`, any other
    kernel in workers. `pack_option` names the kernel's pack on a command line. `said` tells what was read of a
    reference. `measures` says that nothing is declared of the kernel, so its contract is measured. `taken` are the only
    extents that the kernel takes, and the only ones to search; `accepts` is text about other things that it takes.
    Raise CheckFailed, with the findings shrunk and explained, unless something was judged and all of it passed."""
    if GIVEN.asked is not None:
        GIVEN.asked.append(Checked(tuple(targets), here))
        return
    label = targets[0].id if len(targets) == 1 else targets[0].kernel.name
    todo = plan(label, seed, limits.max_cases, limits.max_time, str(targets[0].kernel.source))
    whole = todo.max_cases is None or todo.max_cases >= _WHOLE
    with _misuse_is_said():
        earlier = remembered(todo, op := targets[0].kernel.op)
        data = Data([*kept(cases, op), *earlier], OPS[op].kept if op in OPS else {})
    task = Task(targets, data, measures, whole, taken)
    kernel, signs = task.searched[0].kernel, not pack_option
    pack_option = pack_option or origin_words()
    explain_s, option = explaining()
    began, facts = time.monotonic(), taken_lines(runnable(targets))
    book, terms = book_in(GIVEN.options.output, todo.seed), Terms((kernel,), declared_laws([kernel]))
    session = Session(
        task.searched, book, terms, todo.seed, RunLimits(todo.max_time, todo.max_cases), searched=(), here=here,
        screen=_screen(), patience=PATIENCE_S, tells_facts=False,
    )  # fmt: skip
    with _misuse_is_said(), session:
        driven = drive(task, session, enough=EndsSoonAfter(lambda tally: tally.findings, _AFTER_FINDING))
        targets, pool, tally = driven.targets, session.pool, session.tally
        measured = (driven.measuring.text, accepts) if driven.measuring is not None else ()
        said = _lines(said, *measured, *(each.text for each in driven.beyond.values()), taken.text if taken else "")
        if explain_s and book.buckets:
            from fuzz.explain.diagnosis import TimeShares, new_workers
            from fuzz.findings.explainer import Explainer

            workers = new_workers if here is None else lambda targets, limit: nullcontext(here.only(targets))
            line = LiveLine(session.err)
            try:
                bounds = TimeShares(_LEAST_S, queue=_QUEUE, clock=Spent(), option=option)
                explainer = Explainer(pool, targets, book, bounds, say=line.show, workers=workers)
                explainer.explain_all(explain_s)
            finally:
                line.stop()
    if signs and (paths := [bucket.path for bucket in book.buckets.values() if bucket.path is not None]):
        from fuzz.tasks.check.retrieval import sign

        for path in paths:
            sign(path)
    remember(todo, book, earlier)
    stale = sum(each.found is not None and each.found.is_of_another_formula(each.case) for each in data.known)
    changed = f"  note          {counted(stale, 'kept case')} of another {kernel.op}: it or its reference has changed"
    _tell_undeclared(targets, tally)
    wrong = report(tally, book, pool, targets, todo, pack_option, interrupted=session.interruption.wanted)
    if wrong:
        noted = [
            _AGAIN if driven.again and not book.errors else "", changed if stale else "",
            meant_words(book) if measures else "", *(f"  {each}" for each in (said, *facts) if each),
        ]  # fmt: skip
        notes = "\n".join(filter(None, noted))
        failures = [] if book.errors else [each.told for each in book.buckets.values()]
        raise CheckFailed("\n".join(filter(None, [wrong, wrapped_text(notes, width())])), failures)
    told_line = passed_line(kernel.name, targets, tally, todo, len(earlier), time.monotonic() - began)
    GIVEN.passed += [told_line, *([f"  {said}"] if said else [])]
    shown = [told_line, *[changed] * bool(stale), *(f"  {each}" for each in (said, *facts) if each)]
    print(wrapped_text("\n".join(shown), columns()), file=sys.stderr)
    for target, status in pool.statuses.items():
        if isinstance(status, NotRun):
            warnings.warn(NotRunWarning(f"{target} did not run: {status.reason}"), stacklevel=3)


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
        for each in kept_cases(path) if path.is_dir() else (load(path),):
            if each.case.op == op:
                yield each


def remembered(todo: CheckPlan, op: str) -> list[Kept]:
    """Return the cases that the Hypothesis database keeps for this check; entries that no check wrote are left out."""
    found, known = [], sorted(todo.database.fetch(todo.key)) if todo.database is not None else ()
    if known:
        from fuzz.findings import casefile, document
    for value in known:
        try:
            case, how = casefile.from_json(document.parsed(value.decode()))
        except (UnicodeDecodeError, CaseError):
            continue
        if case.op == op:
            found.append(Kept(Path("of the Hypothesis database"), case, how))
    return found


def remember(todo: CheckPlan, book: FindingBook, earlier: Sequence[Kept]) -> None:
    """Keep the smallest case of each bucket in the database. Delete cases that pass now or have a smaller stand-in."""
    if todo.database is None or not (earlier or book.buckets):
        return
    from fuzz.findings.casefile import FoundRecord, formula_of

    failing = set()
    for bucket in book.buckets.values():
        how = FoundRecord(
            bucket.judgement.target, bucket.verdict, todo.seed, __version__, bucket.judgement.broken_law,
            formula=formula_of(bucket.case.op),
        )  # fmt: skip
        failing.add(_encoded(Kept(Path(), bucket.case, how)))
    for value in failing:
        todo.database.save(todo.key, value)
    for value in {_stored for each in earlier if (_stored := _encoded(each)) not in failing}:
        todo.database.delete(todo.key, value)


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
        check_targets((self.target,), RunLimits(max_time, max_cases), seed, cases, ("--pack", str(self.folder)))


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
