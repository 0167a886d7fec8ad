"""`fuzz.judge`: the command `kernelfuzz judge` as a Python function."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from fuzz.core.transport.fork_server import finding_us
from fuzz.tasks.check.check import CheckError
from fuzz.tasks.judge.ruling import Ruling

File = str | Path


def judge(
    solution: File | Sequence[File],
    *,
    against: File,
    shapes: str | None = None,
    full: bool = False,
    max_cases: int | None = None,
    trusted: bool = False,
    own_shapes: bool = False,
    any_values: bool = False,
    values: str | None = None,
    target: Sequence[str] = (),
    seed: int | None = None,
    output: File | None = None,
    no_shrink: bool = False,
    explain_time: float | None = None,
    case_limit: float | None = None,
    max_time: float | None = None,
    server: File | None = None,
) -> Ruling:
    """Judge whether solutions, given as files or folders, compute what a reference computes. Return the ruling that
    `kernelfuzz judge --json` prints. The arguments are the command's options; times are in seconds. Raises CheckError
    if there is no ruling, because the reference or a solution cannot be read.

    Judging runs in a process of its own, because it forks and handles signals, which other threads of this process
    might not survive. What the reference imports stays in that process, too.
    """
    options = {
        "against": against, "shapes": shapes, "full": full, "max_cases": max_cases, "trusted": trusted,
        "own_shapes": own_shapes, "any_values": any_values, "values": values, "seed": seed, "output": output,
        "no_shrink": no_shrink, "explain_time": explain_time, "case_limit": case_limit, "max_time": max_time,
        "server": server,
    }  # fmt: skip
    words = [str(each) for each in ([solution] if isinstance(solution, (str, Path)) else solution)]
    for name, value in [*options.items(), *(("target", each) for each in target)]:
        if value is not None and value is not False:
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "fuzz", "judge", "--json", *words], env=finding_us(os.environ),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if not done.stdout.startswith("{"):
        raise CheckError(done.stderr.strip().removeprefix("kernelfuzz: ") or f"exit code {done.returncode}")
    return msgspec.json.decode(done.stdout, type=Ruling)
