"""Targets on another machine: the worker is sent and attested, and a connection that ends is no kernel's doing."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fuzz.core.adapters import remote
from fuzz.core.adapters.c import CAttestation
from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.sites import OwnTarget
from fuzz.core.adapters.target import NotRun, Target
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.case import contiguous
from fuzz.core.base.kernel import PLAIN
from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.execute.pool import WorkerPool
from fuzz.tests.common.planted import ANYTHING, HANGS, HEAD, a_case
from oracles.formula.contract import Contract
from oracles.summation import Lanes, VectorLanes

_ONE_ROW, _CASE = a_case(x=contiguous((1, 4))), a_case()
ARCH = this_host().arch


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OwnTarget:
    """A row whose other machine is a shell on this one, with a folder of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "there"))
    remote._sent.cache_clear()
    return OwnTarget("there", ("sh", "-c"), arch=ARCH)


def _target(folder: Path, row: OwnTarget, tried: str = "") -> Target:
    """A kernel that tries something where there are several rows."""
    source = folder / "tried.c"
    source.write_text(f"{HEAD}copy(c); if (rows > 1) {{ {tried} }}\n    return KF_OK;\n}}\n")
    kernel = CKernel("tried", "rms_norm", source, capabilities=ANYTHING, beside=(row,))
    return next(each for each in expand([kernel], this_host()) if each.id == f"c-tried@{row.site}:gcc-O2")


def _run(target: Target, cache: Path) -> tuple[object, list[Outcome]]:
    """What its worker is, and what came of three cases, the second of which is the one with several rows."""
    with WorkerPool([target], cache=cache) as pool:
        found = pool.submit([_ONE_ROW, _CASE, _ONE_ROW]).outcomes()
        return pool.statuses[target.id], [each[target.id] for each in found if each]


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("tried", "status", "said"),
    [
        ("", Status.RAN, ""),
        ("exit(255);", Status.DIED, "ended with exit code 254"),
        (HANGS, Status.HUNG, "no answer within"),
        ("raise(SIGKILL);", Status.DIED, "killed by SIGKILL"),
        ("row(&c->y, rows)[0] = 1;", Status.FAULT, ""),
        ("if (!malloc((size_t)16 << 30)) return KF_REJECTED;", Status.REJECTED, ""),
    ],
)
def test_a_worker_elsewhere_sees_what_a_kernel_does(
    tmp_path: Path, cache: Path, shell: OwnTarget, tried: str, status: Status, said: str
) -> None:
    attested, (before, tried_there, after) = _run(_target(tmp_path, replace(shell, seconds=1.5), tried), cache)
    assert isinstance(attested, CAttestation), attested
    assert (before.status, tried_there.status, after.status) == (Status.RAN, status, Status.RAN)
    assert said in tried_there.detail


def test_a_row_has_what_its_machine_leaves_open(tmp_path: Path) -> None:
    row = OwnTarget("arm", ("ssh", "arm"), arch="aarch64", settings={"vl": 256})
    order = Contract(sums={"n": VectorLanes(1, "predicated")})
    kernel = CKernel("k", "rms_norm", tmp_path / "k.c", "sve", order, beside=(row, replace(row, site="b", settings={})))
    targets = {each.id: each for each in expand([kernel], this_host()) if each.name.site in ("arm", "b")}
    assert [*targets] == [f"c-k@{place}gcc-{opt}" for place in ("arm:vl=256,", "b:") for opt in ("O0", "O2")]
    known, unknown = targets["c-k@arm:vl=256,gcc-O2"], targets["c-k@b:gcc-O2"]
    assert known.contract.sums["n"] == Lanes(8, 1, "predicated")
    assert {("vector length", 256), ("own target", "arm"), ("processor", "native aarch64")} <= {*known.traits}
    assert unknown.unavailable() == "say what b has, in its row of targets.toml: settings = { vl = ... }"
    portable = replace(kernel, isa="any", contract=PLAIN)
    assert {each.arch for each in expand([portable], this_host()) if each.name.site == "arm"} == {"aarch64"}
    assert not [each for each in expand([replace(kernel, isa="avx2")], this_host()) if each.name.site == "arm"]


def test_what_is_there_must_be_what_was_sent(tmp_path: Path, cache: Path, shell: OwnTarget) -> None:
    target = _target(tmp_path, shell, "exit(1);")
    with WorkerPool([target], cache=cache) as pool:
        [sent] = (tmp_path / "there" / "kernelfuzz").iterdir()
        whole = sent.read_bytes()
        sent.unlink()  # what runs cannot be written to
        sent.write_bytes(whole + b"more")
        sent.chmod(0o700)
        found = pool.submit([_ONE_ROW, _CASE, _ONE_ROW]).outcomes()
    statuses = [each[target.id] for each in found]
    assert [each.status for each in statuses] == [Status.RAN, Status.NOT_RUN, Status.NOT_RUN]
    assert statuses[1].detail.endswith(f"the connection to there ended: {sent} is not what was sent")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"arch": "riscv64"}, f"it could not be sent: that machine is {ARCH}, not riscv64"),
        ({"prefix": ("sh", "-c", "echo no route >&2; exit 255")}, "it could not be sent: no route"),
    ],
)
def test_what_cannot_be_reached_is_one_line_and_no_fault_of_the_kernel(
    tmp_path: Path, cache: Path, shell: OwnTarget, change: dict[str, object], said: str
) -> None:
    status, outcomes = _run(_target(tmp_path, replace(shell, **change)), cache)  # type: ignore[arg-type]
    assert isinstance(status, NotRun)
    assert said in status.reason
    assert not status.broken
    assert not outcomes


_USER = "kernelfuzz-test"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[OwnTarget, int]]:
    """A row for this machine as another user has it, through a real server, and the process of that."""
    home, program = Path("/tmp") / _USER, shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    if os.geteuid() != 0 or program is None:
        pytest.skip("a server for another user needs root, and sshd")
    subprocess.run(["useradd", "-m", "-d", home, "-s", "/bin/sh", "-p", "*", _USER], check=True)
    Path("/run/sshd").mkdir(exist_ok=True)
    for name in ("key", "host"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    shutil.copy(tmp_path / "key.pub", home / "keys")
    told = {"HostKey": tmp_path / "host", "AuthorizedKeysFile": home / "keys", "StrictModes": "no", "UsePAM": "no",
            "ListenAddress": "127.0.0.1:2298", "PidFile": "none"}  # fmt: skip
    words = [word for name, value in told.items() for word in ("-o", f"{name}={value}")]
    process = subprocess.Popen([program, "-D", "-f", "/dev/null", "-E", tmp_path / "log", *words])
    asked = {"Port": "2298", "IdentityFile": tmp_path / "key", "StrictHostKeyChecking": "no", "LogLevel": "ERROR",
             "UserKnownHostsFile": "/dev/null", "BatchMode": "yes"}  # fmt: skip
    options = [word for name, value in asked.items() for word in ("-o", f"{name}={value}")]
    try:
        while "listening" not in ((tmp_path / "log").read_text() if (tmp_path / "log").exists() else ""):
            assert process.poll() is None, (tmp_path / "log").read_text()
            time.sleep(0.05)
        yield OwnTarget("loop", ("ssh", "-F", "none", *options, f"{_USER}@127.0.0.1"), arch=ARCH), process.pid
    finally:
        process.kill()
        process.wait()
        subprocess.run(["userdel", "--remove", "--force", _USER], check=False, capture_output=True)


@pytest.mark.whole
def test_a_server_runs_the_worker_as_another_user_until_it_is_cut(
    tmp_path: Path, cache: Path, server: tuple[OwnTarget, int]
) -> None:
    row, process = server
    target = _target(tmp_path, row, "extern unsigned getuid(void); if (getuid() == 0) return KF_REJECTED;")
    with WorkerPool([target], cache=cache) as pool:
        attested = pool.statuses[target.id]
        assert isinstance(attested, CAttestation), attested
        (found,) = pool.submit([_CASE]).outcomes()
        assert found[target.id].status is Status.RAN
        for connection in _connections(process):
            os.kill(connection, signal.SIGKILL)
        cut = [each[target.id] for each in pool.submit([_CASE, _CASE]).outcomes()]
    assert {each.status for each in cut} == {Status.NOT_RUN}
    assert all(each.detail.startswith("the connection to loop ended") for each in cut)


def _connections(process: int) -> Iterator[int]:
    """The processes that a server has started for its connections."""
    for child in map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split()):
        if "sshd" in Path(f"/proc/{child}/comm").read_text():
            yield from _connections(child)
            yield child
