"""What a kernel writes on its worker's pipes is a broken answer of that kernel, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain, count, cycle, repeat
from pathlib import Path
from types import SimpleNamespace

import pytest

from fuzz.core.adapters.python_kernel import PythonKernel
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.outcome import Status
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.transport import process as process_module
from fuzz.core.transport.ending import EndedError, Ending
from fuzz.core.transport.frames import encode_case, longest_answer
from fuzz.core.transport.journal import Journal
from fuzz.core.transport.process import Process
from fuzz.core.transport.taken import Taken
from fuzz.tests.common.forged import CASES, Forger, forge, true_answers
from fuzz.tests.common.planted import ANYTHING

LIMIT_S = 5.0


def test_whatever_a_kernel_answers_each_case_has_an_outcome(tmp_path: Path) -> None:
    """The night tries thousands."""
    forge(tmp_path, 300, 1)


def ended(
    says: Iterator[bytes], clock: Iterator[float], monkeypatch: pytest.MonkeyPatch, journal: object = None
) -> Ending:
    """How a process ends that says this when it is given three cases, and each look at the clock is a later one."""
    forgers = list[Forger]()

    def start(stdin: int, stdout: int, stderr: int) -> Forger:
        forgers.append(Forger(says, os.dup(stdin), os.dup(stdout)))
        return forgers[0]

    monkeypatch.setattr(process_module, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(process_module, "Taken", lambda: Taken(lambda: next(clock), lambda pid: None))
    process = Process(start, LIMIT_S, None, journal=journal, sandboxed=True)  # type: ignore[arg-type]
    given = [encode_case(each) for each in CASES]
    steps = process.exchange(given, lambda found: None, longest=lambda position: longest_answer(CASES[position]))

    def wait() -> None:
        is_ready = None
        for _ in range(1000):
            next(steps) if is_ready is None else steps.send(is_ready)
            if is_ready := journal is None:
                forgers[0].speak()

    with pytest.raises(EndedError) as error:
        wait()
    process.close()
    return error.value.ending


def test_a_length_that_no_answer_has_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    [first, *_] = true_answers()
    huge = first[:8] + b"\xff" * 4 + first[12:]
    assert "answer 0 is to have 4294967295 bytes" in str(ended(iter([huge]), repeat(0.0), monkeypatch))


def test_an_answer_that_comes_byte_by_byte_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    [first, *_] = true_answers()
    huge = first[:8] + (1 << 21).to_bytes(4, "little") + first[12:]
    bytewise = chain((bytes([each]) for each in huge), repeat(b"\0"))
    assert ended(bytewise, count(0.0, LIMIT_S / 10), monkeypatch).hung


def test_a_kernel_that_counts_its_calls_up_and_down_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = cycle((1, 0, 3, 2, 1 << 31))

    class Forged:
        descriptor = os.open(os.devnull, os.O_RDONLY)
        runs = False

        @property
        def begun(self) -> int:
            return next(counts)

        def clear(self) -> None:
            """Nothing."""

    assert ended(iter(()), count(0.0, LIMIT_S / 10), monkeypatch, Forged()).hung


def test_a_journal_stays_as_long_as_it_is() -> None:
    """Who reads beyond its end is killed."""
    journal = Journal()
    with pytest.raises(PermissionError):
        os.ftruncate(journal.descriptor, 0)
    os.close(journal.descriptor)


def test_a_process_may_be_killed_by_a_signal_without_a_name() -> None:
    assert str(Ending(False, -40, "")) == "killed by signal 40"


_FORGES = """
import os, stat, struct
def rms_norm(x, y, eps, axis):
    y[...] = x
    for each in range(3, 64):
        try:
            if stat.S_ISFIFO(os.fstat(each).st_mode):
                os.write(each, b"KFRS" + struct.pack("<II", 0, 0) + bytes([1, 0, 0, 255]) + b"\\xff" * 16 + bytes(16))
        except OSError:
            pass
"""


def test_one_that_forges_is_told_of_and_the_others_are_judged(cache: Path, tmp_path: Path) -> None:
    kernels = []
    for name, text in (("forges", _FORGES), ("honest", "def rms_norm(x, y, eps, axis):\n    y[...] = x\n")):
        source = tmp_path / name / f"{name}.py"
        source.parent.mkdir()
        source.write_text(text)
        kernels.append(
            PythonKernel(name, "rms_norm", source, "numpy", capabilities=ANYTHING, devices=("cpu",), untrusted=True)
        )
    forges, honest = expand(kernels, this_host())
    with WorkerPool([forges, honest], cache=cache) as pool:
        for _ in range(2):
            found = pool.submit(CASES).outcomes()
            assert [each[honest.id].status for each in found] == [Status.RAN] * 3
    assert all(each[forges.id].status in (Status.DIED, Status.REJECTED) for each in found)
    said = {each[forges.id].detail for each in found if each[forges.id].status is Status.DIED}
    assert [each for each in said if not each.startswith("a broken answer: ")] == []
