"""What `kernelfuzz nightly` does."""

from __future__ import annotations

import json
import secrets
import shlex
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError

from fuzz.cli.exits import Exit
from fuzz.cli.fuzzing import exit_code
from fuzz.cli.starting import select_targets, started
from fuzz.execute.pool import WorkerPool
from fuzz.execute.target import Target
from fuzz.laws.registry import declared
from fuzz.nightly.earlier import corpora_of
from fuzz.nightly.lock import locked
from fuzz.nightly.night import CannotSave, Night, last_save
from fuzz.nightly.opening import Opened, close, note_space, note_targets, open_night
from fuzz.nightly.stopping import Stopping
from fuzz.pack import Pack, built_in, load
from fuzz.report import console
from fuzz.report.environment import environment
from fuzz.report.nights import night_record, print_night
from fuzz.report.page import write_page
from fuzz.report.progress import Progress
from fuzz.report.records import status_record
from fuzz.run.tally import Tally, TargetTally
from fuzz.select import globs, matches_any
from fuzz.store.database import open_state
from fuzz.store.database_views import NightView, view
from fuzz.store.state import StateError

_DATABASE, _FINDINGS, _PAGE = "state.sqlite", "findings", "report.html"


@dataclass(frozen=True)
class Request:
    """The options of `kernelfuzz nightly`."""

    state: Path
    max_time: float
    resume: bool
    seed: int | None
    op: str
    targets: tuple[str, ...]
    keyword: str | None
    require: tuple[str, ...]
    pack: Path | None
    json: Path | None
    case_limit: float | None
    jobs: int


def run_night(request: Request) -> Exit:
    """One session of a night, from the lock to the page; the exit code is that of the whole night."""
    err = console.progress()
    pack = load(request.pack or built_in())
    targets = select_targets(pack.kernels, request.op, request.targets, request.keyword)
    nowhere = [p for p in globs(request.require) if not any(matches_any(target.id, [p]) for target in targets)]
    if nowhere:
        err.print(f"required target {nowhere[0]}: no such target; see: kernelfuzz list targets", highlight=False)
        return Exit.REQUIRED_NOT_RUN
    _make(request.state)
    with locked(request.state):
        engine = open_state(request.state / _DATABASE)
        seed = secrets.randbelow(2**32) if request.seed is None else request.seed
        opened = open_night(engine, seed, request.max_time, _command(request), environment(), request.resume)
        _announce(err, opened, request)
        stopping = Stopping(opened.left_s)
        with stopping:
            try:
                saved = _session(_Job(request, pack, targets, engine, opened, stopping), err)
            except Exception:
                close(engine, opened.place, "error")
                raise
            return _finish(request, engine, opened, stopping, saved, err)


def render_again(state: Path, record: Path | None) -> Exit:
    """Write the page of the latest night, and say what it says."""
    path = state / _DATABASE
    if not path.is_file():
        raise StateError(f"--state {state}: no night was ever run there")
    seen = view(open_state(path))
    write_page(state / _PAGE, seen)
    print_night(console.results(), seen, state / _PAGE)
    if record:
        record.write_text(json.dumps(night_record(seen), indent=1) + "\n", encoding="utf-8")
    return _exit_code(seen, (), console.progress())


def _make(state: Path) -> None:
    try:
        (state / _FINDINGS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(f"--state {state}: cannot be written: {error.strerror}") from error


def _announce(err: Console, opened: Opened, request: Request) -> None:
    what = "goes on" if opened.resumed else "begins"
    note = "; there was none to resume" if request.resume and not opened.resumed and opened.night > 1 else ""
    err.print(
        f"night {opened.night} {what}: seed {opened.seed}, {opened.left_s:,.0f} s left{note}",
        highlight=False, soft_wrap=True,
    )  # fmt: skip


@dataclass(frozen=True)
class _Job:
    """What one session works with."""

    request: Request
    pack: Pack
    targets: Sequence[Target]
    engine: Engine
    opened: Opened
    stopping: Stopping


def _session(job: _Job, err: Console) -> bool:
    """Work until a stop is wanted. False where the end of it could not be saved."""

    def say(line: str) -> None:
        err.print(line, style="yellow", highlight=False, markup=False, soft_wrap=True)

    night = None
    with ExitStack() as stack:
        with job.stopping.abortable():
            pool = stack.enter_context(started(job.targets, job.request.jobs, err, job.request.case_limit))
            night = _prepared(job, pool, say)
            night.watch(stack.enter_context(Progress(err, night.runner.tally, job.opened.left_s, None)))
            try:
                night.work()
            except CannotSave as error:
                say(f"the night stops: {error}")
                return False
        # The workers are ended after this, where nothing is cut off any more.
        return night is None or job.opened.place.slice == 0 or last_save(night)


def _prepared(job: _Job, pool: WorkerPool, say: Callable[[str], None]) -> Night:
    """The night with its targets and what it should visit on record."""
    statuses = {name: status_record(status) for name, status in pool.statuses.items()}
    running = tuple(dict.fromkeys(target.kernel for target in job.targets if statuses[target.id]["runs"]))
    with job.stopping.shielded():
        note_targets(job.engine, job.opened.night, job.targets, statuses)
        note_space(job.engine, job.opened.night, running, declared(running))
    pack_option = ("--pack", str(job.request.pack)) if job.request.pack else ()
    return Night(
        job.engine, job.opened, pool, job.targets, job.stopping, job.request.state / _FINDINGS,
        corpora_of(job.pack.path), pack_option, job.pack.kernels, say, job.request.max_time, job.request.jobs,
    )  # fmt: skip


def _finish(request: Request, engine: Engine, opened: Opened, stopping: Stopping, saved: bool, err: Console) -> Exit:
    """Page, summary and exit code."""
    page = request.state / _PAGE
    try:
        if saved:
            close(engine, opened.place, "signal" if stopping.signalled else "limit")
        seen = view(engine, opened.night)
        write_page(page, seen)
        if request.json:
            request.json.write_text(json.dumps(night_record(seen), indent=1) + "\n", encoding="utf-8")
    except (OperationalError, OSError) as error:
        why = error.orig if isinstance(error, OperationalError) else f"{error.filename}: {error.strerror}"
        err.print(f"not saved: {why}", style="yellow", highlight=False, markup=False, soft_wrap=True)
        saved = False
        seen = view(engine, opened.night)
    print_night(console.results(), seen, page)
    if not saved:
        err.print(
            f"the end of the night was not saved: free some space, then: kernelfuzz nightly --resume --state "
            f"{request.state}",
            style="yellow", highlight=False, markup=False, soft_wrap=True,
        )  # fmt: skip
    code = _exit_code(seen, request.require, err, interrupted=stopping.signalled)
    return code if saved or code is not Exit.OK else Exit.INTERNAL


def _exit_code(seen: NightView, require: Sequence[str], err: Console, *, interrupted: bool = False) -> Exit:
    """Of the whole night, whatever session saw it."""
    tally = Tally()
    for row in seen.targets:
        counts = TargetTally(row.name, row.kernel, row.judged, row.findings, row.gave_up, row.not_run)
        counts.not_run_reason = row.reason
        tally.targets[row.name] = counts
    return exit_code(tally, require, err, interrupted=interrupted)


def _command(request: Request) -> str:
    """The options that decide what is run."""
    words = ["kernelfuzz", "nightly", "--max-time", f"{request.max_time:g}s"]
    words += ["--pack", str(request.pack)] if request.pack else []
    words += [word for pattern in request.targets for word in ("--target", pattern)]
    words += ["-k", request.keyword] if request.keyword else []
    words += ["--op", request.op] if request.op != "*" else []
    return shlex.join(words)
