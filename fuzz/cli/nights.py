"""What `kernelfuzz nightly` does."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from sqlalchemy import Engine

from fuzz.adapters.pack import Pack, built_in, load
from fuzz.adapters.target import Target
from fuzz.base.selection import globs, matches_any
from fuzz.cli.exits import Exit
from fuzz.cli.night_results import Results
from fuzz.execute.pool import WorkerPool
from fuzz.findings.database import open_state
from fuzz.findings.state import DATABASE, FINDINGS, StateError, locked
from fuzz.judge.oracle_process import OracleProcess
from fuzz.laws.registry import declared
from fuzz.report import console
from fuzz.report.formats import parse
from fuzz.report.progress import Progress
from fuzz.report.records import environment, status_record
from fuzz.uses.nightly.earlier import corpora_of
from fuzz.uses.nightly.night import CannotSave, NightJob, last_save
from fuzz.uses.nightly.opening import Opened, close, note_space, note_targets, open_night
from fuzz.uses.search.stopping import LAST_S, Stopping
from fuzz.uses.starting import select_targets, started


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
    report: tuple[str, ...]
    case_limit: float | None
    jobs: int


def run_night(request: Request) -> Exit:
    """One session of a night, from the lock to the page; the exit code is that of the whole night."""
    err = console.progress()
    reports, pack = parse(request.report), load(request.pack or built_in())
    targets = select_targets(pack.kernels, request.op, request.targets, request.keyword)
    nowhere = [p for p in globs(request.require) if not any(matches_any(target.id, [p]) for target in targets)]
    if nowhere:
        err.print(f"required target {nowhere[0]}: no such target; see: kernelfuzz list targets")
        return Exit.REQUIRED_NOT_RUN
    _make(request.state)
    # The process first: it would hold the lock too, for a while after a kill of this one.
    with OracleProcess(target.numerics for target in targets) as oracle, locked(request.state):
        engine = open_state(request.state / DATABASE)
        seed = secrets.randbelow(2**32) if request.seed is None else request.seed
        opened = open_night(engine, seed, request.max_time, _command(request), environment(), request.resume)
        _announce(err, opened, request)
        with Stopping(opened.left_s) as stopping, ExitStack() as workers:
            job = _Job(request, pack, targets, engine, opened, stopping, oracle)
            try:
                saved = _session(job, workers, err)
                results = Results(request.state, request.require, request.json, reports, pack.kernels)
                code = results.finish(engine, opened, stopping, saved, err)
                with stopping.abortable(LAST_S):
                    workers.close()
            except Exception:
                close(engine, opened.position, "error")
                raise
            return code


def render_again(request: Request) -> Exit:
    """Write the page of the latest night, and say what it says."""
    reports, pack = parse(request.report), load(request.pack or built_in())
    return Results(request.state, request.require, request.json, reports, pack.kernels).again()


def _make(state: Path) -> None:
    try:
        (state / FINDINGS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(f"--state {state}: cannot be written: {error.strerror}") from error


def _announce(err: Console, opened: Opened, request: Request) -> None:
    what = "goes on" if opened.resumed else "begins"
    note = "; there was none to resume" if request.resume and not opened.resumed and opened.night > 1 else ""
    err.print(
        f"night {opened.night} {what}: seed {opened.seed}, {opened.left_s:,.0f} s left{note}",
        soft_wrap=True,
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
    oracle: OracleProcess


def _session(job: _Job, workers: ExitStack, err: Console) -> bool:
    """Work until a stop is wanted; its workers are killed then, and released by `workers`. False where the end of it
    could not be saved."""

    def say(line: str) -> None:
        err.print(line, style="yellow")

    pool, night, saved = None, None, True
    with ExitStack() as shown, job.stopping.abortable():
        pool = workers.enter_context(started(job.targets, job.request.jobs, err, job.request.case_limit))
        night = _prepared(job, pool, say)
        night.watch(shown.enter_context(Progress(err, night.runner.tally, job.opened.left_s, None)))
        try:
            night.work()
        except CannotSave as error:
            say(f"the night stops: {error}")
            saved = False
    if pool is not None:
        pool.stop()  # else they would take the processors from what is saved now
    if night is None or not saved:
        return saved
    if job.oracle.trouble:
        say(job.oracle.trouble)
    if night.runner.in_flight:
        say(f"dropped: {night.runner.in_flight} cases on their way were not judged in time, and do not count")
    return job.opened.position.slice == 0 or last_save(night)


def _prepared(job: _Job, pool: WorkerPool, say: Callable[[str], None]) -> NightJob:
    """The night with its targets and what it should visit on record."""
    statuses = {name: status_record(status) for name, status in pool.statuses.items()}
    running = tuple(dict.fromkeys(target.kernel for target in job.targets if statuses[target.id]["runs"]))
    with job.stopping.shielded():
        note_targets(job.engine, job.opened.night, job.targets, statuses)
        note_space(job.engine, job.opened.night, running, declared(running))
    pack_option = ("--pack", str(job.request.pack)) if job.request.pack else ()
    return NightJob(
        job.engine, job.opened, pool, job.targets, job.stopping, job.request.state / FINDINGS,
        corpora_of(job.pack.path), pack_option, job.pack.kernels, say, job.request.max_time, job.oracle,
        job.request.jobs,
    )  # fmt: skip


def _command(request: Request) -> str:
    """The options that decide what is run."""
    words = ["kernelfuzz", "nightly", "--max-time", f"{request.max_time:g}s"]
    words += ["--pack", str(request.pack)] if request.pack else []
    words += [word for pattern in request.targets for word in ("--target", pattern)]
    words += ["-k", request.keyword] if request.keyword else []
    words += ["--op", request.op] if request.op != "*" else []
    return shlex.join(words)
