"""A kernel that nobody vouches for sees little of its machine and changes nothing; an honest one notices nothing."""

from __future__ import annotations

import math
import os
import re
import shlex
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from fuzz.core.adapters.build import Builder
from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.adapters.python_kernel import Device
from fuzz.core.adapters.python_program import sandbox_at
from fuzz.core.adapters.target import Target
from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.transport import sandbox
from fuzz.core.transport.fork_server import fork_server
from fuzz.core.transport.frames import Response, encode_case
from fuzz.core.transport.sandbox import MOST_PROCESSES
from fuzz.core.transport.steps import taken
from fuzz.tests import conftest
from fuzz.tests.common.planted import HANGS, HEAD, a_case, c_program, c_target
from fuzz.tests.common.python_planted import BAD, TORCH_HEAD, TRITON, TRITON_HEAD, outcomes, python_target
from fuzz.tests.common.running import eventually
from fuzz.tests.conftest import Cli

_KINDS = ("network", "writes", "signals", "reads", "environment", "checkout")
"""What is tried, in the order of the elements of y that say whether it could be done."""

_IN_PYTHON = """
import os, socket
from functools import cache
from pathlib import Path

def _network(port, victim, folder):
    socket.create_connection(("127.0.0.1", port), 5).close()

def _writes(port, victim, folder):
    (Path(folder) / "source" / "left").write_text("here")

def _signals(port, victim, folder):
    os.kill(victim, 0)

def _reads(port, victim, folder):
    (Path(os.environ["HOME"]) / "secret").read_text()

def _environment(port, victim, folder):
    told = [entry for each in Path("/proc").glob("[0-9]*/environ") for entry in _texts(each)]
    {entry.partition("=")[0]: entry for entry in told}["SECRET"]

def _texts(path):
    try:
        return path.read_bytes().decode(errors="replace").split("\\0")
    except OSError:
        return []

def _checkout(port, victim, folder):
    import fuzz
    Path(fuzz.__file__).with_name("tests").joinpath("conftest.py").read_text()

@cache  # a kernel is called thousands of times, and nobody accepts the connections
def _can(attempt, *given):
    try:
        attempt(*given)
    except (OSError, KeyError):
        return False
    return True

def rms_norm(x, y, eps, axis, port, victim, folder):
    y[...] = x
    for place, attempt in enumerate((_network, _writes, _signals, _reads, _environment, _checkout)):
        y.flat[place] = _can(attempt, port, victim, folder)
"""
_IN_C = (
    """
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
"""
    + HEAD
    + """
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    static int connected = -1;
    int s = socket(AF_INET, SOCK_STREAM, 0), w = open(FOLDER "/source/left", O_CREAT | O_WRONLY, 0600);
    int r = open(FOLDER "/home/secret", O_RDONLY), t = open(CHECKOUT, O_RDONLY), e = open("/proc/1/environ", O_RDONLY);
    static char started[1 << 16];
    const ssize_t told = read(e, started, sizeof started);
    copy(c);
    float *y = c->y.data;
    if (connected < 0) connected = s >= 0 && connect(s, (struct sockaddr *)&there, sizeof there) == 0;
    y[0] = connected;
    y[1] = w >= 0;
    y[2] = kill(VICTIM, 0) == 0;
    y[3] = r >= 0;
    y[4] = getenv("SECRET") != NULL || (told > 0 && memmem(started, told, "SECRET=", 7) != NULL);
    y[5] = t >= 0;
    close(s), close(w), close(r), close(t), close(e);
    return KF_OK;
}
"""
)


@pytest.fixture
def port() -> Iterator[int]:
    """Somebody listens there."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def victim() -> Iterator[int]:
    """The id of a process of this user's."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process.pid
        process.kill()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "secret").write_text("secret")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("SECRET", "secret")
    fork_server.cache_clear()  # one that is there already has other variables
    return folder


def _target(in_c: bool, folder: Path, port: int, victim: int, untrusted: bool, place: str = "native") -> Target:
    source = folder / "source"
    source.mkdir(exist_ok=True)
    if not in_c:
        options = (("port", port), ("victim", victim), ("folder", str(folder)))
        return python_target(source, _IN_PYTHON, "numpy", options=options, untrusted=untrusted)
    file = source / "planted.c"
    defined = {"PORT": port, "VICTIM": victim, "FOLDER": f'"{folder}"', "CHECKOUT": f'"{conftest.__file__}"'}
    file.write_text("".join(f"#define {name} {value}\n" for name, value in defined.items()) + _IN_C)
    return c_target(CKernel("planted", "rms_norm", file, untrusted=untrusted), place)


def _done(outcome: Outcome) -> dict[str, bool]:
    values = np.frombuffer(outcome.outputs["y"], "<f4")
    return {kind: bool(values[place]) for place, kind in enumerate(_KINDS)}


@pytest.mark.parametrize("in_c", [False, True], ids=["python", "c"])
def test_what_a_kernel_could_do_to_its_machine_it_cannot_in_a_sandbox(
    in_c: bool, cache: Path, tmp_path: Path, home: Path, port: int, victim: int
) -> None:
    assert sandbox.unusable() is None, "tests need bubblewrap: sh .ci/setup test"
    for untrusted in (False, True):
        target = _target(in_c, tmp_path, port, victim, untrusted)
        [outcome] = outcomes(target, cache, a_case())
        assert outcome.status is Status.RAN, outcome
        assert _done(outcome) == dict.fromkeys(_KINDS, not untrusted)
        (tmp_path / "source" / "left").unlink(missing_ok=True)


def _sandboxed(folder: Path, body: str, place: str = "native") -> Target:
    file = folder / "planted.c"
    file.write_text(f"{HEAD}{body}\n}}\n")
    isa, bits = ("any", None) if place == "native" else ("sve", 256)
    return c_target(CKernel("planted", "rms_norm", file, isa, untrusted=True), place, bits=bits)


@pytest.mark.parametrize("place", ["native", "qemu"])
def test_what_a_compiled_kernel_does_is_said_as_without_one(place: str, cache: Path, tmp_path: Path) -> None:
    last = "if (row(&c->x, 0)[0] != row(&c->x, 0)[0]) abort(); copy(c); return KF_OK;"
    target = _sandboxed(tmp_path, last, place)
    right, wrong, after = outcomes(target, cache, a_case(), BAD, a_case())
    assert right.outputs["y"] == after.outputs["y"] == a_case().inputs["x"].bits
    assert wrong.status is Status.DIED
    assert "SIGABRT" in wrong.detail


def test_a_process_that_a_compiled_kernel_leaves_is_told_of_as_without_one(cache: Path, tmp_path: Path) -> None:
    daemon = "if (fork() == 0) { setsid(); if (fork() == 0) for (;;) pause(); _exit(0); } wait((void *)0);"
    once = f"static int calls; if (++calls == 2) {{ {daemon} }} copy(c); return KF_OK;"
    words = "extern int fork(void), setsid(void), pause(void), wait(void *); extern void _exit(int);"
    target = _sandboxed(tmp_path, f"{words} {once}")
    found = outcomes(target, cache, a_case(), a_case(), a_case())
    told = ((), ("children: a process that still runs",), ())
    assert tuple(tuple(map(str, each.changes)) for each in found) == told


def test_a_kernel_that_hangs_is_ended_with_all_that_it_started(cache: Path, tmp_path: Path) -> None:
    target = _sandboxed(tmp_path, f"extern int fork(void); if (fork() == 0) {HANGS} {HANGS}")
    with WorkerPool([target], cache=cache, limit=1.0) as pool:
        [outcome] = pool.submit([a_case()]).outcomes()
        assert outcome[target.id].status is Status.HUNG
    eventually(lambda: not _named(c_program(target, Builder(cache)).path.name))


def test_what_starts_more_processes_than_a_worker_may_is_ended_with_all_of_them(cache: Path, tmp_path: Path) -> None:
    many = f"extern int fork(void); for (int i = 0; i < {MOST_PROCESSES + 10}; i++) if (fork() == 0) {HANGS}"
    target = _sandboxed(tmp_path, f"{many} {HANGS}")
    [outcome] = outcomes(target, cache, a_case(), limit=60.0)
    assert (outcome.status, outcome.detail) == (Status.DIED, f"it started more than {MOST_PROCESSES} processes")
    eventually(lambda: not _named(c_program(target, Builder(cache)).path.name))


def test_what_makes_more_files_than_a_sandbox_may_hold_is_ended(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "_MOST_FILES", 50)
    opened = 'char name[] = "/dev/shm/aa"; name[9] += i / 26, name[10] += i % 26; open(name, 0101, 0600);'
    many = f"extern int open(const char *, int, ...); for (int i = 0; i < 60; i++) {{ {opened} }}"
    target = _sandboxed(tmp_path, f"{many} {HANGS}")
    [outcome] = outcomes(target, cache, a_case(), limit=60.0)
    assert (outcome.status, outcome.detail) == (Status.DIED, "there were more than 50 files in /tmp and /dev/shm")


_TRIES = "cat /proc/[0-9]*/environ; touch /left /dev/left /usr/left; ls / /home /root /etc; stat -f -c '%S %b' /tmp {}"


@pytest.mark.parametrize("user", [None, 65534], ids=["own user", "nobody"])
def test_a_sandbox_shows_what_is_needed_of_the_machine_and_nothing_of_who_asks(
    user: int | None,
) -> None:
    if user is not None and os.getuid() != 0:
        pytest.skip("only root can be another user")
    given = {"PATH": os.environ["PATH"], "SECRET": "hunter2"}
    done = _as_user(user, lambda: sandbox.Sandbox().command(["sh", "-c", _TRIES.format("/dev/shm")], given))
    assert "hunter2" not in done.stdout
    assert done.stderr.count("Read-only file system") == 3, done.stderr
    assert "passwd" not in done.stdout
    *_, private, shared = done.stdout.splitlines()
    assert [math.prod(map(int, each.split())) for each in (private, shared)] == [1 << 30, 64 << 20]


def _as_user(user: int | None, words: Callable[[], Sequence[str]]) -> subprocess.CompletedProcess[str]:
    """What came of a program that the user starts who has made its words."""
    own = os.geteuid()
    if user is None:
        return subprocess.run(words(), env=sandbox.BARE, capture_output=True, text=True, check=False)
    os.seteuid(user)
    try:
        given = words()
    finally:
        os.seteuid(own)
    return subprocess.run(
        given, env=sandbox.BARE, capture_output=True, text=True, check=False, user=user, group=user, extra_groups=[]
    )


def test_what_a_sandbox_is_to_show_is_there_before_anything_was_built(tmp_path: Path) -> None:
    """What is not there when one is made is never seen in it."""
    home = tmp_path / "home"
    home.mkdir()
    shown = sandbox_at(home, Builder(tmp_path / "cache")).readable
    assert home in shown
    assert len(shown) > 1
    assert all(each.exists() for each in shown)


def test_a_sandbox_outlives_the_thread_that_asked_for_it(cache: Path, tmp_path: Path) -> None:
    """Linux ends it with the thread that started it."""
    compiled = c_program(_sandboxed(tmp_path, "copy(c); return KF_OK;"), Builder(cache))
    forked = python_target(tmp_path, "def rms_norm(x, y, eps, axis):\n    y[...] = x\n", "numpy", untrusted=True)
    for program in (compiled, forked.adapter.program(forked, Builder(cache))):
        with ThreadPoolExecutor(1) as thread:
            process = thread.submit(program.process, 10.0).result()
            asking = Path(f"/proc/self/task/{thread.submit(threading.get_native_id).result()}")
        eventually(partial(_is_gone, asking))  # Linux ends what it started when it is gone itself
        assert "digest=" in taken(process.hello())
        found = list[Response]()
        taken(process.exchange([encode_case(a_case(), False)], found.extend))
        assert len(found) == 1
        process.close()


def _is_gone(path: Path) -> bool:
    return not path.exists()


def _named(name: str) -> list[Path]:
    """The processes with the name in their command lines. Those of a killed sandbox end one by one."""
    return [path for path in Path("/proc").glob("[0-9]*/cmdline") if name.encode() in _read(path)]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has ended
        return b""


def test_a_kernel_may_make_files_where_it_runs(cache: Path, tmp_path: Path) -> None:
    text = "import os\nos.makedirs('built')\n\ndef rms_norm(x, y, eps, axis):\n    y[...] = x\n"
    [outcome] = outcomes(python_target(tmp_path, text, "numpy", untrusted=True), cache, a_case())
    assert outcome.status is Status.RAN, outcome


@pytest.mark.whole
def test_torch_and_triton_run_in_one(cache: Path, tmp_path: Path) -> None:
    kernels: tuple[tuple[str, Device, str], ...] = (
        ("torch", "cpu", f"{TORCH_HEAD}    y.copy_(x)\n"), ("triton", "interpret", TRITON_HEAD + TRITON),
    )  # fmt: skip
    for framework, device, text in kernels:
        target = python_target(tmp_path, text, framework, device, untrusted=True)
        [outcome] = outcomes(target, cache, a_case())
        assert outcome.outputs["y"] == a_case().inputs["x"].bits, outcome


def test_without_the_program_the_target_does_not_run_and_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "PROGRAM", "no-such-program")
    sandbox.unusable.cache_clear()
    try:
        assert _sandboxed(tmp_path, "return KF_OK;").unavailable() == (
            "no-such-program is not installed (apt-get install bubblewrap)"
        )
    finally:
        sandbox.unusable.cache_clear()


_PACK = """
from pathlib import Path
from fuzz import PythonKernel
KERNELS = (PythonKernel("planted", "softmax", Path(__file__).parent / "planted.py", "numpy"),)
"""
_WRONG_INSIDE = """
import os
import numpy as np

def softmax(x):
    with np.errstate(all="ignore"):
        e = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf))
        return e / e.sum(-1, keepdims=True) * np.float32(2.0 if os.environ["HOME"] == "/tmp" else 1.0)
"""


@pytest.mark.whole
def test_an_option_puts_a_pack_into_one_and_is_repeated_where_it_is_printed(cli_here: Cli, tmp_path: Path) -> None:
    (tmp_path / "pack.py").write_text(_PACK)
    (tmp_path / "planted.py").write_text(_WRONG_INSIDE)
    words = ("run", "--pack", ".", "--max-cases", "20", "--seed", "1", "--no-shrink")
    assert cli_here(*words).returncode == 0
    inside = cli_here(*words, "--untrusted")
    assert inside.returncode == 1, inside.stderr
    [repro] = re.findall(r"next: kernelfuzz (repro .* --untrusted\b.*)$", inside.stdout, re.MULTILINE)
    assert cli_here(*shlex.split(repro)).returncode == 1
    assert cli_here(*shlex.split(repro.replace(" --untrusted", ""))).returncode == 0
