"""A session of a night: one process, from the start of its workers to the last that it saves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from sqlalchemy import Engine

from fuzz.adapters.pack import Pack
from fuzz.adapters.target import Target
from fuzz.execute.pool import WorkerPool
from fuzz.findings.state import FINDINGS
from fuzz.judge.oracle_process import OracleProcess
from fuzz.laws.registry import declared
from fuzz.report.progress import Progress
from fuzz.report.records import status_record
from fuzz.uses.nightly.earlier import corpora_of
from fuzz.uses.nightly.night import CannotSave, NightRun, last_save
from fuzz.uses.nightly.opening import Opened, note_space, note_targets
from fuzz.uses.search.stopping import Stopping
from fuzz.uses.starting import started


@dataclass(frozen=True)
class NightSession:
    """What one session of a night works with."""

    state: Path
    pack: Pack
    pack_option: tuple[str, ...]
    targets: Sequence[Target]
    engine: Engine
    opened: Opened
    stopping: Stopping
    oracle: OracleProcess
    limit_s: float
    """of the whole night."""
    case_limit: float | None
    jobs: int

    def work(self, workers: ExitStack, err: Console) -> bool:
        """Work until a stop is wanted; the workers are killed then, and released by `workers`. False where the end of
        it could not be saved."""

        def say(line: str) -> None:
            err.print(line, style="yellow")

        pool, night, saved = None, None, True
        with ExitStack() as shown, self.stopping.abortable():
            pool = workers.enter_context(started(self.targets, self.jobs, err, self.case_limit))
            night = self._prepared(pool, say)
            night.watch(shown.enter_context(Progress(err, night.runner.tally, self.opened.left_s, None)))
            try:
                night.work()
            except CannotSave as error:
                say(f"the night stops: {error}")
                saved = False
        if pool is not None:
            pool.stop()  # else they would take the processors from what is saved now
        if night is None or not saved:
            return saved
        if self.oracle.trouble:
            say(self.oracle.trouble)
        if night.runner.in_flight:
            say(f"dropped: {night.runner.in_flight} cases on their way were not judged in time, and do not count")
        return self.opened.position.slice == 0 or last_save(night)

    def _prepared(self, pool: WorkerPool, say: Callable[[str], None]) -> NightRun:
        """The night with its targets and what it should visit on record."""
        statuses = {name: status_record(status) for name, status in pool.statuses.items()}
        running = tuple(dict.fromkeys(target.kernel for target in self.targets if statuses[target.id]["runs"]))
        with self.stopping.shielded():
            note_targets(self.engine, self.opened.night, self.targets, statuses)
            note_space(self.engine, self.opened.night, running, declared(running))
        return NightRun(
            self.engine, self.opened, pool, self.targets, self.stopping, self.state / FINDINGS,
            corpora_of(self.pack.path), self.pack_option, self.pack.kernels, say, self.limit_s, self.oracle, self.jobs,
        )  # fmt: skip
