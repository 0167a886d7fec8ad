"""Programs that speak the workers' protocol themselves; here in Python, by the records alone."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fuzz.core.adapters.command_kernel import CommandKernel
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import Attestation, NotRun
from fuzz.core.base.capability import DeclarationError
from fuzz.core.base.case import Case, Output, Tensor, contiguous
from fuzz.core.base.errors import UsageError
from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.execute.pool import WorkerPool
from fuzz.report.outline import Broken

_PROGRAM = """
import struct, sys
given, taken = sys.stdin.buffer, sys.stdout.buffer
hello = b"protocol=1\\nop=row_sum\\nlanguage=Python\\n"
taken.write(b"KFHE" + struct.pack("<I", len(hello)) + hello)
taken.flush()
while head := given.read(24):
    _, count, size = struct.unpack_from("<4sIQ", head)
    cases, at = given.read(size), 0
    for number in range(count):
        length, flags, parameters, inputs, outputs = struct.unpack_from("<IBBBB", cases, at)
        tensor = at + 40 + 48 * parameters
        rows, n = struct.unpack_from("<2q", cases, tensor + 56)
        x = struct.unpack_from(f"<{rows * n}f", cases, tensor + 152 * (inputs + outputs))
        sums = struct.pack(f"<{rows}f", *(sum(x[row * n : row * n + n]) for row in range(rows)))
        if x[0] == 9.0:
            sys.exit("nine\\nten")
        status, said = (1, b"it is seven") if x[0] == 7.0 else (0, sums)
        said = {5.0: said[:-3], 6.0: said + b"more"}.get(x[0], said)
        if x[0] == 8.0:
            taken.write(b"it is eight\\n")
        ends = (status, 0, 0, -1, -1, -1, 0, 0, 0, 0, 0)
        taken.write(struct.pack("<4sIIBBBbqqHHiII", b"KFRS", number, len(said), *ends))
        taken.write(said)
        taken.flush()
        at += length
"""


@pytest.fixture
def kernel(tmp_path: Path) -> CommandKernel:
    (tmp_path / "worker.py").write_text(_PROGRAM)
    return CommandKernel("mine", "row_sum", tmp_path / "worker.py", interpreter=(sys.executable,))


def _case(first: float) -> Case:
    x = np.array([[first, 2, 3], [4, 5, 6]], "<f4")
    return Case("row_sum", {"axis": 1}, {"x": Tensor("f32", contiguous((2, 3)), x.tobytes())},
                {"y": Output("f32", contiguous((2,)))})  # fmt: skip


def _ran(kernel: CommandKernel, cache: Path, *firsts: float) -> tuple[NotRun | Attestation, list[Outcome]]:
    [target] = expand([kernel])
    with WorkerPool([target], cache=cache) as pool:
        outcomes = [found[target.id] for found in pool.submit([_case(first) for first in firsts]).outcomes() if found]
        return pool.statuses[target.id], outcomes


def test_a_program_is_sent_cases_and_attested(kernel: CommandKernel, cache: Path) -> None:
    said, [one, few, many, seven, eight, nine, last] = _ran(kernel, cache, 1.0, 5.0, 6.0, 7.0, 8.0, 9.0, 2.0)
    assert isinstance(said, Attestation)
    assert said.words == f"worker.py {said.digest[:16]}, language Python"
    assert np.frombuffer(one.outputs["y"], "<f4").tolist() == [6.0, 15.0]
    assert (seven.status, seven.detail) == (Status.REJECTED, "it is seven")
    assert (few.status, few.detail) == (Status.WRONG_SHAPE, "it returned 1 of the 2 numbers of y")
    assert (many.status, many.detail) == (Status.WRONG_SHAPE, "it returned 4 bytes beyond all of y")
    assert (eight.status, "what it prints belongs on stderr" in eight.detail) == (Status.DIED, True)
    assert nine.status not in (Status.RAN, Status.REJECTED)
    assert nine.detail == "ended with exit code 1: nine ten"
    assert np.frombuffer(last.outputs["y"], "<f4").tolist() == [7.0, 15.0]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("op=row_sum", "op=softmax", "worker.py: its hello says op=softmax, and row_sum is wanted"),
        ("protocol=1", "protocol=2", "worker.py: its hello says protocol=2, and 1 is wanted"),
        ('b"KFHE"', 'b"Hi! "', "the worker cannot be started: "),
    ],
)
def test_a_program_that_is_no_such_worker_is_one_line(
    kernel: CommandKernel, cache: Path, old: str, new: str, why: str
) -> None:
    kernel.source.write_text(_PROGRAM.replace(old, new))
    said, _ = _ran(kernel, cache)
    assert isinstance(said, NotRun)
    assert said.reason.startswith(why), said.reason


def test_a_program_with_a_mistake_in_it_is_told_by_its_line_and_its_trace_once(
    kernel: CommandKernel, cache: Path
) -> None:
    kernel.source.write_text(_PROGRAM.replace("import struct, sys", "import struct, sys, no_such"))
    said, outcomes = _ran(kernel, cache, 1.0, 2.0)
    assert isinstance(said, NotRun)
    raised = f"{kernel.source}:2: ModuleNotFoundError: No module named 'no_such'"
    assert (said.reason, outcomes) == (f"the worker cannot be started: ended with exit code 1: {raised}", [])
    [_, what, *shown] = Broken("mine", ("a",), said.reason, said.broken).text("", whole=False).splitlines()
    assert what.endswith(said.reason)
    assert [line for line in shown if "no_such" in line] == ["        import struct, sys, no_such"]


def test_what_ends_a_program_in_a_case_is_one_line_without_its_trace(kernel: CommandKernel, cache: Path) -> None:
    kernel.source.write_text(_PROGRAM.replace('sys.exit("nine\\nten")', 'raise OSError("nine")'))
    _, [nine] = _ran(kernel, cache, 9.0)
    assert nine.detail == f"ended with exit code 1: {kernel.source}:17: OSError: nine"


def test_what_cannot_be_started_says_why(kernel: CommandKernel, cache: Path) -> None:
    said, _ = _ran(replace(kernel, interpreter=()), cache)
    assert isinstance(said, NotRun)
    assert said.reason.startswith(f"{kernel.source} is not executable: chmod +x, or name what runs it")
    [lost] = expand([replace(kernel, interpreter=("no-such-interpreter",))])
    assert str(lost.unavailable()).startswith("no-such-interpreter is not installed")
    with pytest.raises(DeclarationError, match=r"^interpreter: write a tuple of words"):
        replace(kernel, interpreter="node")  # type: ignore[arg-type]


def test_no_program_is_written_of_one(kernel: CommandKernel) -> None:
    [target] = expand([kernel])
    with pytest.raises(UsageError, match=r"^--script: mine is a program itself"):
        target.adapter.export(target, None, (), "repro.c")  # type: ignore[arg-type]
