"""How `run` and `gate` treat findings: they try each again in a new process, then shrink and explain it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.text import Text

from fuzz.campaign.search.runner import Runner
from fuzz.campaign.search.stopping import GRACE_S, Interruption, late
from fuzz.core.adapters.target import Target
from fuzz.core.base.case import Case
from fuzz.core.base.text import counted
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.execute.spent import Spent
from fuzz.core.judge.trouble import error_words
from fuzz.explain.attribute.history import Need, Recognised, recognise
from fuzz.explain.diagnosis import TimeShares
from fuzz.explain.explanation import NO_SHRINK
from fuzz.explain.trial.trial import FreshProcess
from fuzz.findings.book import FindingBook
from fuzz.findings.bucket import Bucket, hangs
from fuzz.findings.explainer import Explainer
from fuzz.report.brief import Provenance, brief, commands_of
from fuzz.report.console import print_failure, print_lines

_FINDINGS = 10
"""The most findings that get all their time; if there are more, each gets less. Measured: of 12 C kernels that shared
the time of four, 13 s each, none got a rule; most need 10 to 40 s."""
_LEAST_S = 2.0
"""The least time in seconds for a finding; with less it is shown as it was found. Chosen."""


def note_histories(
    book: FindingBook,
    runners: Sequence[Runner],
    targets: Sequence[Target],
    case_limit: float | None,
    interruption: Interruption,
) -> None:
    """Run each bucket's case again in a new process. Note in the book which of the earlier calls that a runner knows
    the failure needs, or that the case does not fail again."""
    by_id = {target.id: target for target in targets}
    for bucket in book.seen:
        if interruption.wanted:
            return
        if not hangs(bucket) and not bucket.note:
            target = by_id[bucket.judgement.target]
            calls = next((calls for runner in runners if (calls := runner.before(bucket.judgement))), ())
            try:
                with WorkerPool([target], limit=case_limit, bounded=False) as pool:
                    pool.watch = late(lambda: interruption.overdue)
                    trial = FreshProcess(pool, target, bucket.case, bucket.judgement)
                    found = recognised(trial, calls)
            except Exception as error:  # what was found is still shown
                book.note_error(f"internal error: {error_words(error)}", bucket.case)
                continue
            if found.need is not Need.NOTHING and not interruption.wanted:
                book.note_need(bucket, found)


def recognised(trial: FreshProcess, calls: Sequence[Case]) -> Recognised:
    """Return the calls that a failure needs. With a sanitizer only the failing call is repeated: the sanitizer reports
    this call itself, and makes each call a hundred times slower."""
    if trial.target.sanitizer:
        return Recognised(Need.NOTHING if trial.fails(()) else Need.UNKNOWN)
    return recognise(trial.fails, trial.case, calls, trial.unsteady, trial.later, trial.first)


def explain_findings(
    book: FindingBook,
    pool: WorkerPool,
    targets: Sequence[Target],
    seconds: float,
    err: Console,
    interruption: Interruption,
    origin: Provenance | None = None,
    *,
    shrinks: bool = True,
    clock: Callable[[], float] | None = None,
) -> None:
    """Explain the findings of the book and group them by cause, whatever stopped the session; an interruption keeps
    what is known by then. With an `origin`, a terminal shows each failure in short as soon as it is explained. Without
    `shrinks`, each case stays as found, and only changes to it are tried. `seconds` is processor time, or time by
    `clock`. Calls that hang are not waited for."""
    clock = clock or Spent()
    option = "--explain-time" if shrinks else NO_SHRINK
    bounds = TimeShares(_LEAST_S, seconds, option=option, shrinks=shrinks, clock=clock)
    explainer = Explainer(pool, targets, book, bounds)
    if not explainer.waiting or interruption.wanted:
        return
    allowed = seconds * min(len(explainer.waiting) + 1, _FINDINGS)
    end = clock() + allowed + GRACE_S * len(explainer.waiting)  # each still gets the steps that need no search
    pool.watch = watch = late(lambda: interruption.overdue or clock() >= end)

    def workers(targets: Sequence[Target], limit: float | None) -> WorkerPool:
        own = WorkerPool(targets, limit=limit)
        own.watch = watch
        return own

    failures = counted(len(explainer.waiting), "failure")
    limits = f"{seconds:.0f} s of a processor at most for each cause, {allowed:.0f} s in all"
    doing = "shrinking and explaining" if shrinks else "looking around"
    print_lines(err, [f"{doing} {failures}: {limits}; Ctrl-C skips the rest"])
    with err.status("") as status:
        explainer.stop, explainer.workers = lambda: interruption.wanted, workers
        explainer.say = lambda line: status.update(Text(line, no_wrap=True, overflow="ellipsis"))
        # Not in a log, which may hold both streams: the report that follows says all of it.
        if origin is not None and err.is_terminal:

            def ready(done: Bucket) -> None:
                print_failure(err, brief(done.told, commands_of(done.told, done.path, origin)))

            explainer.ready = ready
        explainer.explain_all(allowed)
