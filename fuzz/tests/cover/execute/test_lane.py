"""A kernel that never returns: its case is named, it can be broken off, and it is not run for ever."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from fuzz.core.adapters import c
from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.adapters.target import NotRun, Target
from fuzz.core.base.case import Case, contiguous
from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.execute.batch import Wait
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.execute.worker import Conduct
from fuzz.core.transport import records
from fuzz.core.transport.process import Process
from fuzz.tests.common.planted import ANYTHING, HANGS, HEAD, a_case, c_target
from fuzz.tests.common.python_planted import TORCH_HEAD, indented, python_target

FOREVER = 3600.0
_HANGS = f"if (n == 5) {HANGS}\n    copy(c);"
_EVERYWHERE = "for (int fd = 3; fd < 64; fd++) if (write(fd, {}, {}) < 0) continue;"
"""Writes to every descriptor that may be the protocol's."""
_LIES = f"""
    struct {{ unsigned magic, size; char text[8]; }} hello = {{ {records.HELLO_MAGIC:#x}, 8, "arch\\nx=" }};
    {_EVERYWHERE.format("&hello", "sizeof hello")}"""
_HUNG, _FINE = a_case(contiguous((3, 5))), a_case(contiguous((3, 4)))


@pytest.fixture
def hanging(tmp_path: Path) -> Target:
    """Hangs for rows of five elements."""
    source = tmp_path / "hanging.c"
    source.write_text(f"{HEAD}    {_HANGS}\n    return KF_OK;\n}}\n")
    return c_target(CKernel("hanging", "rms_norm", source, capabilities=ANYTHING), "native")


def _outcomes(pool: WorkerPool, target: Target, *cases: Case) -> list[Outcome]:
    return [each[target.id] for each in pool.submit(cases).outcomes()]


def test_after_some_cases_that_hung_a_target_is_given_no_more(hanging: Target, cache: Path) -> None:
    with WorkerPool([hanging], cache=cache, limit=0.3, most_hangs=2) as pool:
        first, later = _outcomes(pool, hanging, *[_HUNG] * 4, _FINE), _outcomes(pool, hanging, _FINE)
    assert [outcome.status for outcome in first] == [*[Status.HUNG] * 2, *[Status.NOT_RUN] * 3]
    assert {each.detail for each in (first[-1], *later)} == {"not run again after 2 cases that hung"}


def test_a_hang_is_broken_off_and_its_case_named_and_the_next_batch_runs(hanging: Target, cache: Path) -> None:
    """Nothing more of what was submitted runs; the cases before are not lost."""
    seen: list[Wait] = []

    def watch(waits: Sequence[Wait]) -> Collection[str]:
        seen.extend(waits)
        return [wait.target for wait in waits if wait.case is not None]

    with WorkerPool([hanging], cache=cache, limit=FOREVER) as pool:
        pool.watch = watch
        batch, next_one = pool.submit([_FINE, _HUNG, _FINE]), pool.submit([_FINE])
        first = [each[hanging.id] for each in batch.outcomes()]
        [second] = [each[hanging.id] for each in next_one.outcomes()]
        [third] = _outcomes(pool, hanging, _FINE)
    assert [outcome.status for outcome in first] == [Status.RAN, Status.NOT_RUN, Status.NOT_RUN]
    assert re.match(r"the session ended while it was at rms_norm f32 \[3, 5\]", first[1].detail)
    assert (second.status, third.status) == (Status.NOT_RUN, Status.RAN)
    assert {wait.case for wait in seen if wait.case is not None} == {_HUNG}
    assert {wait.limit for wait in seen} == {FOREVER}


def test_what_held_a_run_up_is_named_with_its_time_and_what_did_not_is_no_timeout() -> None:
    at = Wait("torch-k@cpu", _HUNG, 0.4, 60.0)
    assert at.broken_off == "the session ended while it was at rms_norm f32 [3, 5]"
    assert replace(at, seconds=7.0).broken_off == "the session ended while it was at rms_norm f32 [3, 5], 7 s of 60 s"
    started = replace(at, case=None, seconds=2.0)
    assert started.broken_off == "the session ended while it was at its start, 2 s"


def test_a_slow_case_is_no_hang_and_the_next_one_is_given_more_time(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes more than a hundred times what a call usually does; alone in a fresh process it has all its time."""
    monkeypatch.setattr("fuzz.core.execute.worker._PATIENCE_S", 0.2)
    conduct = Conduct()
    source = tmp_path / "slow.c"
    slow = "struct timespec nap = {1, 0}; if (n == 5) nanosleep(&nap, NULL);\n    copy(c);"
    source.write_text(f"#include <time.h>\n{HEAD}    {slow}\n    return KF_OK;\n}}\n")
    target = c_target(CKernel("slow", "rms_norm", source, capabilities=ANYTHING), "native")
    with WorkerPool([target], cache=cache, limit=FOREVER) as pool:
        found = _outcomes(pool, target, _FINE, _HUNG, _FINE)
        assert pool.restarts == {}
    assert [outcome.status for outcome in found] == [Status.RAN] * 3
    before = conduct.patience(FOREVER)
    conduct.doubts += 1
    assert (conduct.patience(FOREVER), conduct.patience(0.1)) == (2 * before, 0.1)
    conduct.calls, conduct.busy_s = 10, 0.1
    assert conduct.patience(FOREVER) == 2.0


def test_a_hang_is_seen_by_what_a_call_usually_takes_and_confirmed_alone(
    hanging: Target, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fuzz.core.execute.worker._PATIENCE_S", 0.2)
    waited: list[float] = []
    end = Process._end

    def noted(self: Process, hung: bool = False, ended: str = "", unplaced: bool = False) -> NoReturn:
        waited.extend([self.patience] if hung else [])
        end(self, hung, ended, unplaced)

    monkeypatch.setattr(Process, "_end", noted)
    with WorkerPool([hanging], cache=cache, limit=FOREVER, longest=0.5) as pool:
        found = _outcomes(pool, hanging, _FINE, _HUNG, _FINE)
    assert [outcome.status for outcome in found] == [Status.RAN, Status.HUNG, Status.RAN]
    assert len(waited) == 2
    assert waited[0] < waited[1] == 0.5


@pytest.mark.some(1)
@pytest.mark.parametrize(("head", "limit"), [(TORCH_HEAD, 0.5), (f"import torch\n@torch.compile\n{TORCH_HEAD}", 60.0)])
def test_a_kernel_that_compiles_keeps_its_own_limit_in_a_short_session(
    tmp_path: Path, cache: Path, head: str, limit: float
) -> None:
    """It was wrong, as it did not return in a quarter of the session's time."""
    target = python_target(tmp_path, head + indented("y.copy_(x)"))
    with WorkerPool([target], cache=cache, longest=0.5) as pool:
        assert pool.limits == {target.id: limit}


@pytest.mark.some(1)
@pytest.mark.parametrize("body", ["if x.shape[-1] == 5: import time; time.sleep(3600)", "while x.shape[-1] == 5: pass"])
def test_a_python_kernel_that_hangs_obeys_the_limit(tmp_path: Path, cache: Path, body: str) -> None:
    target = python_target(tmp_path, TORCH_HEAD + indented(f"{body}\ny.copy_(x)"))
    with WorkerPool([target], cache=cache, limit=1.0) as pool:
        [found] = _outcomes(pool, target, _HUNG)
    assert found.status is Status.HUNG


def _not_run(target: Target, cache: Path) -> NotRun:
    with WorkerPool([target], cache=cache) as pool:
        status = pool.statuses[target.id]
        assert pool.submit([_FINE]).outcomes() == [{}]
    assert isinstance(status, NotRun)
    return status


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("import os; os._exit(0)", "the worker cannot be started: ended with exit code 0"),
        ("import os; os.kill(os.getpid(), 6)", "the worker cannot be started: killed by SIGABRT"),
    ],
)
def test_a_python_kernel_that_ends_when_it_is_loaded_is_to_blame(
    tmp_path: Path, cache: Path, text: str, said: str
) -> None:
    status = _not_run(python_target(tmp_path, text + "\n"), cache)
    assert said in status.broken
    assert said in status.reason


@pytest.mark.parametrize(
    ("constructor", "said"),
    [
        ("_Exit(3);", "the worker cannot be started: ended with exit code 3"),
        (_EVERYWHERE.format('"no hello of a worker, but a long text"', 36), "it is no worker"),
        (HANGS, "the worker cannot be started: it is not ready after 1 s"),
        (_LIES, "its worker says of itself what cannot be read: "),
    ],
)
def test_a_c_kernel_that_speaks_ends_or_hangs_before_its_worker_is_to_blame(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, constructor: str, said: str
) -> None:
    if constructor == HANGS:  # the others are given the time that they may need on a busy machine
        monkeypatch.setattr(c, "_START_LIMIT_S", 1.0)
    source = tmp_path / "early.c"
    early = f"#include <unistd.h>\n__attribute__((constructor)) static void early(void) {{ {constructor} }}\n"
    source.write_text(f"{HEAD}    copy(c);\n    return KF_OK;\n}}\n{early}")
    target = c_target(CKernel("early", "rms_norm", source, capabilities=ANYTHING), "native")
    status = _not_run(replace(target, case_limit=1.0), cache)
    assert said in status.broken


Written = Callable[[Path], None]


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda path: path.unlink(), "does not exist"),
        (lambda path: path.write_bytes(b"\xff\xfe"), "it is not UTF-8 text"),
    ],
)
def test_a_source_that_cannot_be_read_is_its_kernels_fault(
    tmp_path: Path, cache: Path, write: Written, said: str
) -> None:
    target = python_target(tmp_path, TORCH_HEAD + indented("y.copy_(x)"))
    write(target.kernel.source)
    status = _not_run(target, cache)
    assert status.broken == status.reason
    assert re.search(said, status.reason)
