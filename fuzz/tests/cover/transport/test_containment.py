"""What a kernel does to its process is that kernel's finding, and stops nothing else. Native and emulated."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fuzz.core.adapters.target import Target
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.case import Case
from fuzz.core.base.kernel import PLAIN
from fuzz.core.base.outcome import CHANGES, Change, Outcome, Status
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.judge.judge import Judge
from fuzz.core.transport import process
from fuzz.tests.common.planted import Run, a_case
from fuzz.tests.common.python_planted import CUE, TORCH_HEAD, indented, outcomes, python_target
from fuzz.tests.common.running import until_ended

ACTS: dict[str, tuple[str, str]] = {
    "handler": ("signal(SIGUSR1, SIG_IGN);", "signals: another handler of SIGUSR1"),
    "mask": ("sigset_t all; sigfillset(&all); sigprocmask(SIG_BLOCK, &all, NULL);", "signals: others are blocked"),
    "folder": ('if (chdir("/")) abort();', "folder: the current folder is another one"),
    "variable": ('setenv("KF_LEFT", "1", 1);', "environment: the variables differ"),
    "umask": ("umask(0123);", "environment: the file mode mask is 123"),
    "limit": ("struct rlimit low = {100, 100}; setrlimit(RLIMIT_NOFILE, &low);", "limits: resource limits differ"),
    "opened": ('if (open("/dev/null", O_RDONLY) < 0) abort();', "descriptors: "),
    "closed": ("close(0);", "descriptors: 0 was closed"),
    "other": ('dup2(open("/dev/zero", O_RDWR | O_CLOEXEC), 0);', "descriptors: 0 is open on something else"),
    "flags": ("fcntl(0, F_SETFL, O_NONBLOCK);", "descriptors: 0 is open on something else"),
    "child": ("if (fork() == 0) for (;;) pause();", "children: a process that still runs"),
    "zombie": (
        "pid_t child = fork(); if (child == 0) _exit(0); siginfo_t i; waitid(P_PID, child, &i, WEXITED | WNOWAIT);",
        "children: a process that nobody waited for",
    ),
    "orphan": (
        "if (fork() == 0) { setsid(); if (fork() == 0) for (;;) pause(); _exit(0); } wait(NULL);",
        "children: a process that still runs",
    ),
    "thread": ("pthread_t id; pthread_create(&id, NULL, forever, NULL);", "threads: "),
    "timer": (
        "const struct itimerval t = {.it_value.tv_sec = 1000}; setitimer(ITIMER_VIRTUAL, &t, NULL);",
        "timers: a timer is set",
    ),
    "alarm": ("alarm(1000);", "timers: a timer is set"),
    "rounding": ("fesetround(FE_UPWARD);", "floating-point environment: another rounding mode"),
}
"""Something that outlives a call, and what is said of it."""

HEAD = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <fenv.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
static void *forever(void *unused) { for (;;) pause(); return unused; }
"""


CARELESS = r"""
#define kf_rms_norm worked
#if defined(__x86_64__)
#define ENTRY "subq $8, %rsp\n\tcall worked\n\taddq $8, %rsp\n\t"
#define FORGETS "movq $7, %r14\n\t"
#else
#define ENTRY "stp x29, x30, [sp, #-16]!\n\tbl worked\n\tldp x29, x30, [sp], #16\n\t"
#define FORGETS "fmov d9, xzr\n\t"
#endif
__asm__(".text\n.globl kf_rms_norm\nkf_rms_norm:\n\t" ENTRY PART "ret\n");
"""
"""An entry in assembler."""


@pytest.fixture(params=["native"])
def place(request: pytest.FixtureRequest) -> str:
    """The night emulates all of it, see `nightly/transport`."""
    return str(request.param)


def cued(place: int) -> Case:
    """The case that asks for the act of that place."""
    return a_case(bits=(np.arange(12, dtype="<f4") + 1000 + place).tobytes())


def switch() -> str:
    """Copies, and does what the first element asks for."""
    acts = "".join(f"if (row(&c->x, 0)[0] == {1000 + k}) {{ {act} }}\n" for k, (act, _) in enumerate(ACTS.values()))
    return f"copy(c);\n{acts}"


@pytest.fixture
def target(make_target: Callable[..., Target]) -> Callable[[str], Target]:
    """A target of a body that may use what HEAD includes."""
    return lambda body: make_target(body, before=HEAD)


def ran(target: Target, cache: Path, *cases: Case, limit: float = 10.0) -> list[Outcome]:
    with WorkerPool([target], limit=limit, cache=cache) as pool:
        return [each[target.id] for each in pool.submit(cases).outcomes()]


def test_what_outlives_a_call_is_a_finding_of_the_call_that_left_it(
    target: Callable[[str], Target], cache: Path
) -> None:
    planted = target(switch())
    for place, (_, said) in enumerate(ACTS.values()):
        # A pool for each: what was looked for three times is not looked for again.
        before, bad, after = ran(planted, cache, a_case(), cued(place), a_case())
        if (planted.emulated, said) == (True, ACTS["orphan"][1]):
            continue  # QEMU does not let a process be the reaper of its descendants
        assert said in [str(change)[: len(said)] for change in bad.changes]
        assert bad.changes[0].kind in CHANGES
        assert (before.changes, after.changes) == ((), ())
        assert {each.status for each in (before, bad, after)} == {Status.RAN}


def test_right_values_and_a_changed_process_are_a_verdict_of_their_own() -> None:
    case = a_case()
    rms = np.arange(1, 13, dtype="<f4").reshape(3, 4)
    right = (rms / np.sqrt((rms.astype("f8") ** 2).mean(1, keepdims=True) + 1e-5)).astype("<f4").tobytes()
    left = (Change("folder", "the current folder is another one"),)
    passed = Judge(case).judge(Outcome("t", Status.RAN, {"y": right}), PLAIN)
    failed = Judge(case).judge(Outcome("t", Status.RAN, {"y": right}, changes=left), PLAIN)
    wrong = Judge(case).judge(Outcome("t", Status.RAN, {"y": bytes(48)}, changes=left), PLAIN)
    assert (passed.verdict, failed.verdict, wrong.verdict) == (
        Verdict.PASS, Verdict.FAIL_PROCESS, Verdict.FAIL_NUMERIC,
    )  # fmt: skip
    assert failed.reason == "left its process changed: folder: the current folder is another one"


def test_what_is_put_back_is_no_change(target: Callable[[str], Target], cache: Path) -> None:
    """The C library adds flags to handlers, and appends variables, where the kernel puts back what was there."""
    restored = """
    copy(c);
    void (*user)(int) = signal(SIGUSR1, SIG_IGN), (*illegal)(int) = signal(SIGILL, SIG_IGN);
    signal(SIGUSR1, user); signal(SIGILL, illegal);
    char *path = strdup(getenv("PATH")); unsetenv("PATH"); setenv("PATH", path, 1); free(path);
    if (system("true") != 0) abort();
    fesetround(FE_UPWARD); fesetround(FE_TONEAREST);
    alarm(100); alarm(0);
    """
    found = ran(target(restored), cache, *[a_case()] * 3)
    assert [(each.status, each.changes) for each in found] == [(Status.RAN, ())] * 3


def test_a_slow_case_is_not_called_again_until_it_seems_to_hang(
    target: Callable[[str], Target], cache: Path, tmp_path: Path
) -> None:
    """Each call keeps memory, and takes more of the limit than could be spent on another few."""
    slow = "copy(c); *(volatile char *)malloc(100) = 1; usleep(2600000);"
    assert [each.status for each in ran(target(slow), cache, a_case(), limit=5.0)] == [Status.RAN]
    python = python_target(
        tmp_path, "KEPT = []\n" + TORCH_HEAD + indented("y.copy_(x)\nKEPT.append(x.clone())\ntime.sleep(0.6)")
    )
    assert [each.status for each in outcomes(python, cache, a_case(), limit=5.0)] == [Status.RAN]


def test_registers_that_belong_to_the_caller_come_back(
    make_target: Callable[..., Target], cache: Path, place: str
) -> None:
    (kept,) = ran(make_target("copy(c);", before=f'#define PART ""\n{CARELESS}'), cache, a_case())
    (lost,) = ran(make_target("copy(c);", before=f"#define PART FORGETS\n{CARELESS}"), cache, a_case())
    register = "d9" if place == "qemu" or this_host().arch == "aarch64" else "r14"
    assert (kept.status, kept.changes) == (Status.RAN, ())
    assert list(map(str, lost.changes)) == [f"calling convention: {register} is not as it was before the call"]


def test_a_kernel_may_declare_what_it_keeps(target: Callable[[str], Target], cache: Path) -> None:
    planted = target(switch())
    keeping = replace(planted, kernel=replace(planted.kernel, keeps=("folder",)))
    names = list(ACTS)
    (folder,) = ran(keeping, cache, cued(names.index("folder")))
    (mask,) = ran(keeping, cache, cued(names.index("mask")))
    assert (folder.changes, [each.kind for each in mask.changes]) == ((), ["signals"])


@pytest.mark.some(4)
@pytest.mark.parametrize(
    ("body", "leaks"),
    [
        ("*(volatile char *)malloc(100) = 1;", True),
        ("mmap(NULL, 1 << 16, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);", True),
        ("static char *kept; if (!kept) kept = malloc(1 << 20); kept[n] = 1;", False),
        ("static long size; static char *kept; if (size < 4096 * n) kept = realloc(kept, size = 4096 * n);", False),
        ('free(malloc(5000)); char text[64]; snprintf(text, 64, "%f", 1.5);', False),
        ("static char *r[64]; static int i; free(r[i]); r[i] = malloc(1000); i = (i + 1) % 64;", False),
        ("static char *r[900]; static int i; if (i == 900) while (i) free(r[--i]); r[i++] = malloc(99);", False),
    ],
)  # fmt: skip
def test_memory_that_every_call_keeps_is_a_leak_and_what_is_kept_for_later_is_none(
    target: Callable[[str], Target], cache: Path, body: str, leaks: bool
) -> None:
    for outcome in ran(target(f"copy(c); {body}"), cache, a_case()):
        assert [change.kind for change in outcome.changes] == (["memory"] if leaks else [])


@pytest.mark.parametrize(
    ("act", "said"),
    [
        ("char b[64] = {0}; for (int f = 1; f < 1024; f++) if (write(f, b, 64) < 0) continue;", "a broken answer"),
        ("char b[64]; memset(b, 65, 64); for (int f = 1; f < 999; f++) if (write(f, b, 64) < 0) continue;", "a broken"),
        ("for (int f = 0; f < 1024; f++) close(f);", "alone in a fresh worker it returned"),
    ],
)  # fmt: skip
def test_a_worker_that_its_kernel_broke_is_a_crash_of_its_target(
    target: Callable[[str], Target], cache: Path, act: str, said: str
) -> None:
    found = ran(target(f"static int calls; copy(c); if (++calls % 5 == 0) {{ {act} }}"), cache, *[a_case()] * 12)
    died = [outcome for outcome in found if outcome.status is Status.DIED]
    assert died
    assert all(said in outcome.detail for outcome in died)
    assert {outcome.status for outcome in found} <= {Status.DIED, Status.RAN}


def test_a_library_may_greet_before_main(make_target: Callable[..., Target], cache: Path) -> None:
    greet = (
        '#include <stdio.h>\n__attribute__((constructor)) static void greet(void) { puts("KFHE"); fflush(stdout); }\n'
    )
    (found,) = ran(make_target("copy(c);", before=greet), cache, a_case())
    assert (found.status, found.changes) == (Status.RAN, ())


def test_what_is_printed_fills_no_file(target: Callable[[str], Target], cache: Path) -> None:
    """Each frame prints a quarter of what the file of it may hold."""
    printing = target("static char text[1 << 24]; if (write(2, text, sizeof text) < 0) abort(); copy(c);")
    with WorkerPool([printing], limit=600.0, cache=cache) as pool:
        for _ in range(6):
            [found] = pool.submit([a_case()]).outcomes()
            assert found[printing.id].status is Status.RAN


def test_a_copy_of_the_worker_answers_nothing(target: Callable[[str], Target], cache: Path) -> None:
    found = ran(target("static int calls; copy(c); if (++calls % 4 == 0) fork();"), cache, *[a_case()] * 12)
    assert [outcome.outputs for outcome in found] == [{"y": a_case().inputs["x"].bits}] * 12
    assert {change.kind for outcome in found for change in outcome.changes} == {"children"}
    # By its calls on other cases: how often a worker repeats one is its own affair, and another under an emulator.
    cue = "if (*(unsigned *)c->x.data != 0xffffffffu) others++; else if (others >= 2 && fork() > 0) _exit(0);"
    cases = [a_case(bits=b"\xff" * 48 if place in (3, 6, 9) else None) for place in range(12)]
    gone = ran(target(f"static int others; copy(c); {cue}"), cache, *cases)
    died = [place for place, outcome in enumerate(gone) if outcome.status is Status.DIED]
    assert died == [3, 6, 9]  # after others in each process: what died was made again alone


def test_a_signal_to_the_parent_ends_the_kernels_own_worker(target: Callable[[str], Target], cache: Path) -> None:
    found = ran(
        target("static int calls; copy(c); if (++calls == 4) { kill(getppid(), SIGTERM); sleep(60); }"),
        cache,
        *[a_case()] * 4,
    )
    assert [outcome.status for outcome in found[:3]] == [Status.RAN] * 3
    assert (found[3].status, "SIGKILL" in found[3].detail) == (Status.DIED, True)


def test_deaths_and_hangs_that_come_now_and_then_are_findings(target: Callable[[str], Target], cache: Path) -> None:
    killed = ran(
        target("static int calls; copy(c); if (++calls == 4) kill(getpid(), SIGKILL);"), cache, *[a_case()] * 4
    )
    assert killed[3].status is Status.DIED
    assert "alone in a fresh worker it returned, but not after the 3 calls before it" in killed[3].detail
    hung = ran(
        target("static int calls; copy(c); if (++calls == 4) for (;;) pause();"), cache, *[a_case()] * 4, limit=1.0
    )
    assert (hung[3].status, "not after the 3 calls" in hung[3].detail) == (Status.HUNG, True)


def test_what_a_kernel_started_is_ended_with_it(target: Callable[[str], Target], cache: Path, tmp_path: Path) -> None:
    note = tmp_path / "pids"
    act = f"""
    FILE *note = fopen("{note}", "a");
    if (fork() == 0) {{
        setsid();
        if (fork() == 0) {{ fprintf(note, "%d\\n", getpid()); fclose(note); for (;;) pause(); }}
        _exit(0);
    }}
    wait(NULL);
    fclose(note);
    for (struct stat found; stat("{note}", &found) != 0 || found.st_size == 0;) {{}}
    """
    ran(target(f"copy(c); {act}"), cache, a_case())
    pids = [*map(int, note.read_text().split())]
    assert pids
    until_ended(*pids)


def test_a_process_that_shares_more_memory_than_it_may_is_ended(
    run: Run, monkeypatch: pytest.MonkeyPatch, target: Callable[[str], Target], cache: Path
) -> None:
    monkeypatch.setattr(process, "_SHARED_BYTES", -process.MEMORY_LIMIT + (200 << 20))
    act = (
        "char *p = mmap(NULL, 1 << 28, PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0); memset(p, 1, 1 << 28); pause();"
    )
    (found,) = ran(target(f"copy(c); {act}"), cache, a_case(), limit=600.0)
    assert (found.status, "of memory" in found.detail) == (Status.DIED, True)


PYTHON_ACTS = {
    "os.chdir('/')": "folder: the current folder is another one",
    "os.environ.update(KF_LEFT='1')": "environment: the variables differ",
    "torch.set_default_dtype(torch.float64)": "library state: torch's default dtype differs",
    "torch.set_flush_denormal(True)": "floating-point environment: subnormals are flushed to zero",
    "np.seterr(all='raise')": "library state: NumPy's error handling differs",
    "signal.signal(signal.SIGUSR1, signal.SIG_IGN)": "signals: another handler",
    "threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()": "threads: another number of threads",
    "subprocess.Popen(['sleep', '1000'])": "children: a process that still runs, or that nobody waited for",
    "signal.alarm(1000)": "timers: a timer is set",
    "os.close(0)": "descriptors: 0, 1 or 2 was closed or is open on something else",
}


def test_what_outlives_a_call_of_a_python_kernel(tmp_path: Path, cache: Path) -> None:
    head = "import signal, subprocess, threading\nimport numpy as np\nACTS = [\n"
    head += "".join(f"    lambda: {act},\n" for act in PYTHON_ACTS)
    body = "y.copy_(x)\nif x[0, 0] >= 1000: ACTS[int(x[0, 0]) - 1000]()"
    planted = python_target(tmp_path, head + "]\n" + TORCH_HEAD + indented(body))
    for place, said in enumerate(PYTHON_ACTS.values()):
        before, bad, after = outcomes(planted, cache, a_case(), cued(place), a_case())
        assert [str(change) for change in bad.changes] == [said]
        assert (before.changes, after.changes) == ((), ())


_STARTS = """
import os, time
from functools import cache

def started():
    child = os.fork()
    if child == 0:
        time.sleep(1000)
        os._exit(0)
    return child

def orphaned():
    there, here = os.pipe()
    if os.fork() == 0:
        os.setsid()
        os.write(here, started().to_bytes(4, "little"))
        os._exit(0)
    os.wait()
    child = int.from_bytes(os.read(there, 4), "little")
    os.close(there)
    os.close(here)
    return child

kept = cache(started)

def rms_norm(x, y, eps, axis):
    import this
    y[...] = child = {start}()
    os.kill(child, 0)
"""


@pytest.mark.some(1)
@pytest.mark.parametrize("start", ["started", "orphaned"])
def test_each_call_of_a_python_kernel_that_leaves_a_process_is_told_of_and_the_process_ended(
    tmp_path: Path, cache: Path, start: str
) -> None:
    """Although the first imports something."""
    planted = python_target(tmp_path, _STARTS.format(start=start), "numpy")
    found = outcomes(planted, cache, a_case(), a_case(), a_case())
    assert [[change.kind for change in each.changes] for each in found] == [["children"]] * 3
    pids = [int(np.frombuffer(each.outputs["y"], "<f4")[0]) for each in found]
    until_ended(*pids)


def test_a_python_kernel_may_declare_that_it_keeps_a_process(tmp_path: Path, cache: Path) -> None:
    planted = python_target(tmp_path, _STARTS.format(start="kept"), "numpy", keeps=("children",))
    found = outcomes(planted, cache, a_case(), a_case(), a_case())
    assert [(each.status, each.changes) for each in found] == [(Status.RAN, ())] * 3


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("body", "leaks"),
    [
        ("KEPT.append(x.clone())", True),
        ("KEPT[:] = [x.clone()]", False),
        ("KEPT.append(x.clone())\nif len(KEPT) > 900: KEPT.clear()", False),
    ],
)
def test_memory_that_every_call_of_a_python_kernel_keeps(tmp_path: Path, cache: Path, body: str, leaks: bool) -> None:
    planted = python_target(tmp_path, "KEPT = []\n" + TORCH_HEAD + indented(f"y.copy_(x)\n{body}"))
    (outcome,) = outcomes(planted, cache, a_case())
    assert [change.kind for change in outcome.changes] == (["memory"] if leaks else [])


_FULL = """
from fuzz.core.transport.python.state import MemoryWatch
kept, calls = [], 0
def call():
    global calls
    calls += 1
    if len(kept) < 200:
        kept.append([object() for _ in range(16)])
watch = MemoryWatch("cpu")
kept.append(object())
assert watch.leak(call, 0.0, 60.0) == ()
assert 200 < calls < 600, calls
"""


def test_what_is_full_after_some_hundred_calls_is_looked_at_no_longer() -> None:
    """So is a list of free objects of Python, and thousands of calls of torch take seconds. In a process of its own:
    other tests leave memory to be freed."""
    done = subprocess.run([sys.executable, "-c", _FULL], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_signal_to_a_python_workers_parent_ends_that_worker_alone(tmp_path: Path, cache: Path) -> None:
    """Two workers of one server: the other goes on."""
    hostile = python_target(tmp_path, TORCH_HEAD + indented(CUE.format("os.kill(os.getppid(), 15); time.sleep(60)")))
    (tmp_path / "other").mkdir()
    honest = python_target(tmp_path / "other", TORCH_HEAD + indented("y.copy_(x)"))
    honest = replace(honest, name=replace(honest.name, kernel="honest"))
    bad = a_case(bits=b"\xff" * 48)
    with WorkerPool([hostile, honest], cache=cache) as pool:
        pids = pool.pids[honest.id]
        found = pool.submit([a_case(), bad, a_case()]).outcomes()
        assert [each[hostile.id].status for each in found] == [Status.RAN, Status.DIED, Status.RAN]
        assert [each[honest.id].status for each in found] == [Status.RAN] * 3
        assert pool.pids[honest.id] == pids
