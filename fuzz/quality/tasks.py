"""Tasks of others, such as KernelBench's: which are read, and whether their own module is right as a solution."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import track

from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.core.base.errors import UsageError, error_line
from fuzz.quality.asking import all_asked
from fuzz.report import console
from fuzz.report.console import PlainTable, print_tables
from fuzz.report.records import write_record
from fuzz.tasks.comparison import FORMULA, REPLAY
from fuzz.tasks.judge.asked import QUICK_REPLAYS, Asked
from fuzz.tasks.judge.judging import read_statement
from fuzz.tasks.readers.source import TaskError
from fuzz.tasks.readers.statement import UnreadStatementError

REFUSED = "neither"
_HONEST = "\n\nclass ModelNew(Model):\n    pass\n"
"""What makes the module of a task a solution of it."""
_OWN = r"\(.*? line \d+\)|/\S+: |'[^']*'|\d[\d,]*"
"""The parts of a reason that differ between tasks."""


@dataclass(frozen=True)
class TasksOptions:
    """The options of `python3 -m fuzz.quality tasks`."""

    folder: Annotated[Path, typer.Argument(help="A folder with files of tasks, in any depth.")]
    match: Annotated[str, typer.Option("--match", help="Only files with this path in it (a glob).")] = "*"
    judge: Annotated[
        float, typer.Option("--judge", min=0, help="Judge each task's own module, for so many seconds.")
    ] = 0
    limit: Annotated[float, typer.Option("--limit", min=1, help="The most seconds for reading a task.")] = 120
    markdown: options.Markdown = False
    json: options.Json = None
    jobs: options.Processes = 1


@dataclass(frozen=True)
class TaskAnswer:
    """What was found out about one task."""

    task: str
    by: str
    """What judges its solutions: `FORMULA`, `REPLAY` or `REFUSED`."""
    why: str = ""
    """Why no formula is read."""
    seconds: float = 0.0
    """The processor time of reading, in seconds."""
    verdict: str = ""
    """The ruling on its own module."""
    said: str = ""
    """The headline of that ruling, unless it is right."""


def tasks(options: TasksOptions) -> Exit:
    """Read tasks of others, and judge their own modules; exit code 1 if one is called wrong.

    For example: python3 -m fuzz.quality tasks KernelBench/level1 --judge 60
    """
    files = sorted(each for each in options.folder.rglob("*.py") if fnmatchcase(str(each), f"*{options.match}*"))
    names = [str(each) for each in files if "def get_inputs" in each.read_text("utf-8", "replace")]
    if not names:
        raise UsageError(f"{options.folder}: no file with get_inputs that --match {options.match} takes is in it")
    jobs = options.jobs or len(os.sched_getaffinity(0))
    asked = all_asked(names, partial(answers, judge_s=options.judge), jobs, options.limit + 2 * options.judge)
    found = list[TaskAnswer]()
    for each in track(asked, "Reading", len(names), console=console.progress()):
        found += each.found or [TaskAnswer(each.name, REFUSED, each.ended)]
    print_tables(_shares(found), _reasons(found), _wrong(found), markdown=options.markdown)
    write_record(options.json, {"tasks": [asdict(each) for each in found]})
    return Exit.FINDINGS if any(each.verdict == "wrong" for each in found) else Exit.OK


def answers(task: str, judge_s: float) -> Iterator[TaskAnswer]:
    """Yield the answer about the task in a file."""
    with tempfile.TemporaryDirectory() as folder:
        solution = Path(folder, "solution.py")
        solution.write_text(Path(task).read_text("utf-8") + _HONEST, "utf-8")
        asked = Asked((str(solution),), task, None, "finite", 1, 8, QUICK_REPLAYS, Path(folder), False, (), None, 0.0)
        begin, by, why = time.process_time(), FORMULA, ""
        try:
            read_statement(asked)
        except UnreadStatementError as error:
            by, why = REPLAY, str(error)
        except TaskError as error:
            by, why = REFUSED, str(error)
        except Exception as error:  # whatever the task raises
            by, why = REFUSED, error_line(error)
        spent = time.process_time() - begin
        verdict, said = _ruling(task, solution, judge_s) if judge_s else ("", "")
    yield TaskAnswer(task, by, why, spent, verdict, said)


def _ruling(task: str, solution: Path, seconds: float) -> tuple[str, str]:
    command = [sys.executable, "-m", "fuzz", "judge", str(solution), "--against", task, "--json", "--no-shrink"]
    limits = ["--max-time", f"{seconds:g}s", "--output", str(solution.parent / "judged")]
    done = subprocess.run([*command, *limits], capture_output=True, text=True, check=False)
    try:
        [one] = json.loads(done.stdout)["solutions"]
        return str(one["verdict"]), "" if one["verdict"] == "right" else str(one["headline"])
    except (ValueError, KeyError):
        return "none", (done.stderr or done.stdout).strip().splitlines()[-1][:200]


def _shares(found: Sequence[TaskAnswer]) -> PlainTable:
    rows = list[tuple[str, ...]]()
    for folder in dict.fromkeys(Path(each.task).parent.name for each in found):
        own = [each for each in found if Path(each.task).parent.name == folder]
        by, verdicts = Counter(each.by for each in own), Counter(each.verdict for each in own)
        seconds = sorted(each.seconds for each in own)
        counts = (len(own), *(by[each] for each in (FORMULA, REPLAY, REFUSED)))
        judged = (verdicts["right"], verdicts["wrong"], len(own) - verdicts[""] - verdicts["right"] - verdicts["wrong"])
        rows.append((folder, *map(str, counts), f"{seconds[len(seconds) // 2]:.1f}", *map(str, judged)))
    columns = "", "tasks", "read", "replayed", REFUSED, "CPU s to read", "own module right", "wrong", "not decided"
    return PlainTable(columns, rows)


def _reasons(found: Sequence[TaskAnswer]) -> PlainTable:
    why = Counter((each.by, re.sub(_OWN, "..", each.why)[:110]) for each in found if each.why)
    return PlainTable(("", "why", "tasks"), [(by, words, str(count)) for (by, words), count in why.most_common()])


def _wrong(found: Sequence[TaskAnswer]) -> PlainTable:
    some = [each for each in found if each.verdict not in ("", "right")]
    return PlainTable(("task", "ruling", "because"), [(Path(each.task).name, each.verdict, each.said) for each in some])
