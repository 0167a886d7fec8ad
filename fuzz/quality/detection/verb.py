"""`python3 -m fuzz.quality detection`: planted bugs under this tool, and under the tests that others publish."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import typer

from fuzz.adapters.pack import Pack
from fuzz.base.errors import UsageError
from fuzz.base.kernel import Mutant
from fuzz.base.selection import keyword
from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import duration, loaded
from fuzz.quality.detection.hunt import Limits, Seen, hunted
from fuzz.quality.detection.state import Answer, Asked, asked_of, keep, known
from fuzz.quality.detection.tables import (
    GPUEMU,
    SHARPNESS,
    Score,
    Sharpness,
    alone,
    found_table,
    missed,
    scores,
    sharpness,
    sharpness_table,
    visible_of,
)
from fuzz.quality.detection.ways import WAYS, Way, of_suite
from fuzz.report import console
from fuzz.report.console import print_table
from fuzz.report.records import write_record
from fuzz.uses.corpus.folder import built_in
from fuzz.uses.corpus.suites import suites
from fuzz.uses.parallel import spread_answers
from fuzz.uses.search.stopping import Interruption
from fuzz.uses.tolerance.needs import ROWS, SEED
from fuzz.uses.tolerance.plain import ordinary_draw
from oracles.op import Op
from oracles.ops import OPS

_SHARP = tuple((dtype, n) for dtype in ("f32", "f16", "bf16") for n in (64, 4096))
_DEAREST = 1 << 23
"""Nothing is said of a length at which an op has more terms than this: the oracle would take seconds for them."""


@dataclass(frozen=True)
class DetectionOptions:
    """The options of `python3 -m fuzz.quality detection`."""

    ops: Annotated[
        tuple[str, ...], typer.Option("--ops", metavar="GLOB", help="Only bugs of these ops. Repeatable.")
    ] = ()
    keyword: Annotated[
        str | None, typer.Option("-k", metavar="EXPR", help="Only planted bugs whose name matches, e.g. 'tail or nan'.")
    ] = None
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of all that is drawn.")] = 1
    max_cases: Annotated[
        int, typer.Option("--max-cases", min=1, help="Cases of a search for the bugs of one kernel.")
    ] = 1000
    each: Annotated[
        float, typer.Option("--each", metavar="60s", parser=duration, help="The most for one kernel and one test.")
    ] = 60.0
    max_time: Annotated[
        float | None, typer.Option("--max-time", metavar="2h", parser=duration, help="The most for all of it.")
    ] = None
    state: Annotated[
        Path | None, typer.Option("--state", help="Keep what is known in this file, and go on from there.")
    ] = None
    controls: Annotated[bool, typer.Option("--controls", help="Correct kernels in which no bug is planted, too.")] = (
        False
    )
    sharpness: Annotated[bool, typer.Option(help="The table of the smallest errors that are seen, too.")] = True
    pack: options.PackFolder = None
    markdown: options.Markdown = False
    json: options.Json = None
    jobs: options.Processes = 1


@dataclass
class _Measurement:
    """One run of the command."""

    options: DetectionOptions
    pack: Pack
    ways: Sequence[Way]
    began: float = field(default_factory=time.monotonic)

    @property
    def is_over(self) -> bool:
        return self.options.max_time is not None and time.monotonic() - self.began > self.options.max_time

    def answer(self, asked: Asked) -> Answer:
        """Measure one correct kernel and its planted bugs."""
        mutants = [each for each in self.pack.mutants if each.name in asked.mutants]
        try:
            return Answer(asked, tuple(hunted(self.pack, asked.base, mutants, self.ways, asked.limits)))
        except UsageError as error:
            return Answer(asked, (), str(error))


def detection(options: DetectionOptions) -> Exit:
    """Count the planted bugs that are found: by this tool, by it on plain data, and by the tests that others publish.

    For example: python3 -m fuzz.quality detection --ops softmax --max-time 5m
    """
    out, err = console.results(), console.progress()
    pack = loaded(options.pack)
    mutants = _chosen(pack, options)
    measurement = _Measurement(options, pack, (*WAYS, *map(of_suite, suites(built_in() / "suites"))))
    limits = Limits(options.seed, options.max_cases, options.each)
    controls = [each.name for each in pack.kernels if _is_asked(each.op, options)] if options.controls else []
    questions = list(asked_of(mutants, measurement.ways, limits, controls))
    answers = [each for asked, each in known(options.state).items() if asked in questions]
    waiting = [asked for asked in questions if asked not in {each.asked for each in answers}]
    for answer in _answered(measurement, waiting):
        answers.append(answer)
        keep(options.state, answer)
        said = answer.not_run or f"{len(missed(answer.seen))} of {len(answer.asked.mutants)} bugs missed"
        err.print(f"{len(answers)} of {len(questions)}, {answer.asked.base}: {said}", soft_wrap=True)
    seen = [each for answer in answers for each in answer.seen]
    scored = list(scores(seen, visible_of(pack.mutants)))
    print_table(found_table(scored), markdown=options.markdown)
    for line in _lines(seen, answers, questions, limits):
        out.print(line, soft_wrap=True)
    sharp = _sharpness(dict.fromkeys(pack.kernel(asked.base).op for asked in questions)) if options.sharpness else []
    if sharp:
        out.print()
        print_table(sharpness_table(sharp), markdown=options.markdown)
        out.print(f"\n{SHARPNESS}", soft_wrap=True)
    write_record(options.json, _record(options, answers, scored, sharp))
    return Exit.OK


def _chosen(pack: Pack, options: DetectionOptions) -> list[Mutant]:
    """The planted bugs that are asked for. Raises UsageError where there is none."""
    matches = keyword(options.keyword) if options.keyword else lambda name: True
    chosen = [each for each in pack.mutants if matches(each.name) and _is_asked(pack.kernel(each.base).op, options)]
    if not chosen:
        raise UsageError(f"{pack.path} plants no bug that matches")
    return chosen


def _is_asked(op: str, options: DetectionOptions) -> bool:
    return not options.ops or any(fnmatchcase(op, glob) for glob in options.ops)


def _answered(measurement: _Measurement, waiting: Sequence[Asked]) -> Iterator[Answer]:
    """Yield the answers as they come, until the time is over or a stop is wanted."""
    processes = measurement.options.jobs or len(os.sched_getaffinity(0))
    with Interruption("what is known is shown") as stop:
        yield from spread_answers(
            waiting, measurement.answer, Answer, processes, lambda: stop.wanted or measurement.is_over,
            lambda asked: asked.base, "its process was ended from outside",
        )  # fmt: skip


def _lines(
    seen: Sequence[Seen], answers: Sequence[Answer], questions: Sequence[Asked], limits: Limits
) -> Iterator[str]:
    """What stands below the table."""
    yield f"\n{alone(seen)} of the bugs are found by this tool alone"
    unfound = missed(seen)
    if unfound:
        yield f"not found by it: {', '.join(unfound)}"
    for answer in answers:
        if answer.not_run:
            yield f"not measured: {answer.asked.base}: {answer.not_run}"
    if len(answers) < len(questions):
        yield f"the time was over: {len(questions) - len(answers)} of {len(questions)} correct kernels were not reached"
    yield f"at most {limits.max_cases:,} cases of a search, {limits.max_time:g} s of each test, seed {limits.seed}"
    yield GPUEMU


def _sharpness(names: Iterable[str]) -> list[Sharpness]:
    with console.progress().status("Looking how small an error is seen ..."):
        found = (sharpness(OPS[name], dtype, n) for name in names for dtype, n in _SHARP if _is_cheap(OPS[name], n))
        return [each for each in found if each is not None]


def _is_cheap(op: Op, n: int) -> bool:
    return ordinary_draw(op, n, ROWS, {}, SEED, ()).work <= _DEAREST


def _record(
    options: DetectionOptions, answers: Sequence[Answer], scored: Sequence[Score], sharp: Sequence[Sharpness]
) -> dict[str, Any]:
    seen = [each for answer in answers for each in answer.seen]
    return {
        "seed": options.seed,
        "max_cases": options.max_cases,
        "each_s": options.each,
        "scores": [asdict(each) for each in scored],
        "seen": [asdict(each) for each in seen],
        "not_run": {answer.asked.base: answer.not_run for answer in answers if answer.not_run},
        "sharpness": [asdict(each) for each in sharp],
    }
