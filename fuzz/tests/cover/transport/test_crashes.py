"""Whatever a kernel does to its process, every case has an outcome; native and emulated."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fuzz.core.adapters.build import Builder
from fuzz.core.adapters.target import NotRun, Target
from fuzz.core.base.outcome import Fault, Status
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.transport.child import command
from fuzz.core.transport.ending import EndedError
from fuzz.core.transport.frames import Response, encode_case, encode_frame
from fuzz.core.transport.process import Process
from fuzz.core.transport.steps import taken
from fuzz.tests.common.planted import HANGS, Run, a_case, c_program
from fuzz.tests.common.python_planted import python_target
from fuzz.tests.common.running import eventually, until_ended

BAD = a_case(bits=b"\xff" * 48)
"""a case that the kernels below take for their cue."""
CUE = "copy(c); if (*(unsigned *)c->x.data == 0xffffffffu) { %s }"
ILL = """
#if defined(__x86_64__)
__asm__ volatile("ud2");
#else
__asm__ volatile(".inst 0");
#endif
"""
DIVIDE = """
#if defined(__x86_64__)
volatile int zero = 0; zero = 7 / zero;
#else
raise(SIGFPE);
#endif
"""


@pytest.fixture(params=["native"])
def place(request: pytest.FixtureRequest) -> str:
    """The night emulates all of it, see `nightly/transport`."""
    return str(request.param)


def test_caught_signals_name_no_tensor_and_the_worker_lives(run: Run) -> None:
    null = "*(volatile int *)8 = 1;"
    # Not in the frame of the whole function: some compilers probe that at its start.
    overflow = (
        "volatile char *big = __builtin_alloca(1 << 26); for (int i = (1 << 26) - 1; i >= 0; i -= 4096) big[i] = 1;"
    )
    for body, name in ((ILL, "SIGILL"), (DIVIDE, "SIGFPE"), (null, "SIGSEGV"), (overflow, "SIGSEGV")):
        before, bad, after = run(CUE % body, a_case(), BAD, a_case())
        assert (before.status, after.status) == (Status.RAN, Status.RAN)
        assert bad.status is Status.FAULT
        assert bad.fault is not None
        assert (bad.fault.signal, bad.fault.tensor, bad.fault.row, bad.fault.byte) == (name, None, None, None)


def test_many_faults_in_one_worker(run: Run) -> None:
    outcomes = run("volatile float v = row(&c->x, rows - 1)[n]; (void)v;", *[a_case()] * 300)
    assert {outcome.status for outcome in outcomes} == {Status.FAULT}
    assert len({outcome.fault for outcome in outcomes}) == 1
    assert isinstance(outcomes[-1].fault, Fault)


@pytest.mark.parametrize(
    ("body", "said"),
    [("abort();", "SIGABRT"), ("exit(0);", "exit code 0"), ('fputs("oh no", stderr); _Exit(3);', "oh no")],
)
def test_a_dead_worker_is_the_cases_outcome(run: Run, body: str, said: str) -> None:
    outcomes = run(CUE % body, a_case(), BAD, a_case(), BAD)
    assert [outcome.status for outcome in outcomes] == [Status.RAN, Status.DIED, Status.RAN, Status.DIED]
    assert said in outcomes[1].detail


def test_what_a_worker_left_that_died_may_be_refused(make_target: Callable[[str], Target], cache: Path) -> None:
    """Its last answers are read when it is gone, and one of them may say that it had no memory for a case."""
    process = c_program(make_target(CUE % "abort();"), Builder(cache)).process(10.0)
    taken(process.hello())
    left = list[Response]()

    def take(found: Sequence[Response]) -> None:
        left.extend(found)
        if left:
            process.refuse("of no use")

    with pytest.raises(EndedError, match="of no use") as caught:
        taken(process.exchange([encode_case(a_case()), encode_case(BAD)], take))
    assert [response.position for response in left] == [0]
    assert not caught.value.ending.from_outside


def test_a_search_does_not_wait_for_all_that_end_a_process_together(
    make_target: Callable[[str], Target], cache: Path
) -> None:
    """As cases of one program on a GPU do: the first is told, and those behind it do not run. Probes all run."""
    target = replace(make_target(CUE % "_exit(3);"), batched=True)
    cases = [a_case(), BAD, a_case(), BAD, BAD]
    found = dict[int | None, list[Status]]()
    for most_hangs in (3, None):
        with WorkerPool([target], cache=cache, most_hangs=most_hangs) as pool:
            outcomes = [each[target.id] for each in pool.submit(cases).outcomes()]
        found[most_hangs] = [each.status for each in outcomes]
        assert all("ended the process" in each.detail for each in outcomes if each.status is Status.NOT_RUN)
    assert found[3] == [Status.RAN, Status.DIED, *[Status.NOT_RUN] * 3]
    assert found[None] == [Status.RAN, Status.DIED, Status.RAN, Status.DIED, Status.DIED]


def test_a_hung_worker_is_the_cases_outcome(run: Run) -> None:
    outcomes = run(CUE % HANGS, a_case(), BAD, a_case(), limit=2.0)
    assert [outcome.status for outcome in outcomes] == [Status.RAN, Status.HUNG, Status.RAN]


def test_a_death_that_does_not_happen_again_is_still_reported(run: Run) -> None:
    # By its calls on other cases: how often a worker repeats one is its own affair, and another under an emulator.
    third = CUE % "if (others == 2) abort(); return KF_OK;"
    outcomes = run(f"static int others; {third} others++;", a_case(), a_case(), BAD, a_case())
    assert [outcome.status for outcome in outcomes] == [Status.RAN, Status.RAN, Status.DIED, Status.RAN]
    assert "alone in a fresh worker it returned" in outcomes[2].detail


def test_a_kernel_that_prints_does_not_break_the_protocol(run: Run) -> None:
    case = a_case()
    outcomes = run('copy(c); printf("KFRS%09d\\n", 7); fflush(stdout); getchar();', case, case)
    assert [outcome.outputs for outcome in outcomes] == [{"y": case.inputs["x"].bits}] * 2


def test_a_kernel_cannot_swallow_the_memory(run: Run) -> None:
    (outcome,) = run(
        "void *p = malloc((size_t)16 << 30); if (p == NULL) return KF_REJECTED; *(volatile char *)p = 1; copy(c);",
        a_case(),
    )
    assert outcome.status is Status.REJECTED


def test_floating_point_state_does_not_leak(run: Run) -> None:
    """The first case sets flush-to-zero; the second multiplies a subnormal."""
    flush = """
    #if defined(__x86_64__)
    if (*(unsigned *)c->x.data == 0xffffffffu) { __builtin_ia32_ldmxcsr(0x9fc0); copy(c); return KF_OK; }
    #else
    uint64_t on = 1 << 24;
    if (*(unsigned *)c->x.data == 0xffffffffu) { __asm__ volatile("msr fpcr, %0" : : "r"(on)); copy(c); return KF_OK; }
    #endif
    copy(c); volatile float tiny = 1e-39f; tiny = tiny * 0.5f; row(&c->y, 0)[0] = tiny > 0;
    """
    outcomes = run(flush, BAD, a_case())
    assert outcomes[1].outputs["y"][:4] == b"\x00\x00\x80\x3f"


def test_a_rejection_carries_the_code(run: Run) -> None:
    (rejected, strange) = *run("return KF_REJECTED;", a_case()), *run("return 7;", a_case())
    assert (rejected.status, strange.status) == (Status.REJECTED, Status.REJECTED)
    assert "7" in strange.detail


def test_killed_workers_lose_no_case(make_target: Callable[[str], Target], cache: Path, tmp_path: Path) -> None:
    """No case of a batch is answered before its worker is killed: the kernel waits for a file of the batch's number."""
    gate = tmp_path / "%d"
    opened = f'char path[4096]; snprintf(path, sizeof path, "{gate}", (int)row(&c->x, 0)[0]); FILE *file;'
    target = make_target(f'copy(c); {opened} while ((file = fopen(path, "r")) == NULL) {{}} fclose(file);')
    cases = [a_case(bits=np.full((3, 4), number, "<f4").tobytes()) for number in range(3)]
    with WorkerPool([target], cache=cache) as pool:
        batches = [pool.submit([case] * 40) for case in cases]
        killed = []
        for number, how in enumerate((signal.SIGKILL, signal.SIGTERM, signal.SIGKILL)):
            killed.append(pool.pids[target.id])
            os.kill(killed[-1], how)
            (tmp_path / str(number)).touch()
            outcomes = [each[target.id] for each in batches[number].outcomes()]
            assert [outcome.outputs for outcome in outcomes] == [{"y": cases[number].inputs["x"].bits}] * 40
        assert len(set(killed)) == 3
        assert pool.restarts[target.id] == 3


def test_a_worker_killed_before_it_speaks_is_started_again(
    make_target: Callable[..., Target], cache: Path, tmp_path: Path
) -> None:
    """What a library's constructor does, the first time, stands for an operator."""
    first = f'int first = open("{tmp_path / "started"}", O_CREAT | O_EXCL, 0600) >= 0; if (first) raise(SIGKILL);'
    load = f"__attribute__((constructor)) static void load(void) {{ {first} }}"
    target = make_target("copy(c);", f"#include <fcntl.h>\n#include <signal.h>\n{load}\n")
    with WorkerPool([target], cache=cache) as pool:
        (outcomes,) = pool.submit([a_case()]).outcomes()
        assert outcomes[target.id].status is Status.RAN
        assert pool.restarts[target.id] == 1


@pytest.mark.whole
def test_a_worker_that_cannot_be_restarted_says_so(make_target: Callable[[str], Target], tmp_path: Path) -> None:
    target = make_target(CUE % "abort();")
    with WorkerPool([target], cache=tmp_path / "cache") as pool:
        for binary in (tmp_path / "cache").glob("worker-*"):
            binary.unlink()
        outcomes = [each[target.id] for each in pool.submit([a_case(), BAD, a_case()]).outcomes()]
        later = pool.submit([a_case()]).outcomes()
    assert [outcome.status for outcome in outcomes] == [Status.RAN, Status.NOT_RUN, Status.NOT_RUN]
    assert "cannot be started" in outcomes[1].detail
    assert later[0][target.id].status is Status.NOT_RUN


def test_leaving_the_pool_ends_the_workers(make_target: Callable[[str], Target], cache: Path) -> None:
    target = make_target(HANGS)
    with pytest.raises(KeyboardInterrupt), WorkerPool([target], cache=cache) as pool:  # noqa: PT012
        assert not isinstance(pool.statuses[target.id], NotRun)
        pids = list(pool.pids.values())
        pool.submit([a_case()] * 3)
        raise KeyboardInterrupt
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


PARENT = """
import os, signal, sys
from fuzz.core.transport.child import command
from fuzz.core.transport.process import Process
from fuzz.core.transport.steps import taken
process = Process(command(sys.argv[1:]), limit=0.5)
taken(process.hello())
taken(process._send(sys.stdin.buffer.read()))
print(process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_no_worker_outlives_a_killed_parent(make_target: Callable[[str], Target], cache: Path) -> None:
    """An idle worker sees the end of its input; one in an endless loop has an alarm."""
    target = make_target(CUE % HANGS)
    words = [sys.executable, "-c", PARENT, *c_program(target, Builder(cache)).command]
    for case in (a_case(), BAD):
        frame = encode_frame([encode_case(case)], limit_s=1)
        parent = subprocess.run(words, input=frame, stdout=subprocess.PIPE, check=False)
        assert parent.returncode == -signal.SIGKILL
        until_ended(int(parent.stdout))


def test_a_worker_below_a_tool_is_ended_with_it(tmp_path: Path) -> None:
    """While it starts, too: it has an end of our pipes, and would be waited for until it has started."""
    told = tmp_path / "pid"
    process = Process(
        command(["sh", "-c", 'sleep 3600 & echo $! > "$0.new" && mv "$0.new" "$0"; wait', str(told)]), 60.0
    )
    eventually(told.exists)
    process.kill()
    with pytest.raises(EndedError):
        taken(process.hello())
    process.close()
    until_ended(int(told.read_text()))


def test_looking_for_a_leak_is_not_taken_for_a_hang(tmp_path: Path, cache: Path) -> None:
    """It makes the last case 256 times again, and more often, where the first few calls keep something."""
    text = "import time\nkept = []\ndef rms_norm(x, y, eps, axis):\n    y[...] = x\n    time.sleep(2e-3)\n"
    target = python_target(tmp_path, f"{text}    kept.extend([] for _ in range(50 * (len(kept) < 5000)))\n", "numpy")
    process, found = target.adapter.program(target, Builder(cache)).process(60.0), list[Response]()
    taken(process.hello())
    process.patience = 0.25
    began = time.monotonic()
    taken(process.exchange([encode_case(a_case(), False)], found.extend))
    process.close()
    assert len(found) == 1
    assert time.monotonic() - began > 256 * 2e-3, "it was looked for"
