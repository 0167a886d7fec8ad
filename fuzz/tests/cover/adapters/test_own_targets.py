"""Targets of a pack's own: each is run as its row says, and a row that says nothing sensible is one clear line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fuzz.core.adapters import c
from fuzz.core.adapters.build import Builder
from fuzz.core.adapters.c import CAttestation
from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.adapters.pack import load
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.sites import FILE, OwnTarget, OwnTargetError, own_targets
from fuzz.core.adapters.target import NotRun, Target
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.execute.loop import Loop, Queue
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.execute.worker import Conduct, LostError, Worker
from fuzz.core.transport.steps import Steps
from fuzz.tests.common.planted import ANYTHING, HEAD, a_case

ROWS = """
[polite]
prefix = ["nice", "-n", "5"]
seconds = 30

["native+asan"]
flags = ["-fsanitize=address"]
"""
PACK = """
from pathlib import Path

from fuzz import CKernel

KERNELS = (CKernel("mine", "rms_norm", Path(__file__).parent / "mine.c"),)
"""
TRIES = HEAD + "copy(c); TRIED\nreturn KF_OK; }\n"


def target_at(folder: Path, row: OwnTarget, tried: str) -> Target:
    source = folder / "tried.c"
    source.write_text(TRIES.replace("TRIED", tried))
    kernel = CKernel("tried", "rms_norm", source, capabilities=ANYTHING, beside=(row,))
    return next(each for each in expand([kernel], this_host()) if each.id == f"c-tried@{row.site}:gcc-O2")


def outcomes_of(target: Target, cache: Path) -> tuple[object, Outcome | None]:
    """What its worker is, and what came of a case."""
    with WorkerPool([target], cache=cache) as pool:
        (found,) = pool.submit([a_case()]).outcomes()
        return pool.statuses[target.id], found.get(target.id)


def test_a_row_adds_a_place_to_every_kernel_in_c(tmp_path: Path) -> None:
    for name, text in (("mine.c", TRIES), ("pack.py", PACK), (FILE, ROWS)):
        (tmp_path / name).write_text(text)
    targets = expand(load(tmp_path).kernels, this_host())
    places = ("native", "polite", "native+asan")
    assert [each.id for each in targets if each.name.compiler == "gcc"] == [
        f"c-mine@{place}:gcc-{opt}" for place in places for opt in ("O0", "O2")
    ]
    polite = next(each for each in targets if each.name.site == "polite")
    assert [tool.name for tool in polite.adapter.tools(polite)] == ["gcc", "nice"]
    assert (polite.case_limit, dict(polite.traits)["own target"]) == (30.0, "polite")


def test_the_worker_runs_under_the_program(tmp_path: Path, cache: Path) -> None:
    row = OwnTarget("told", prefix=("env", "KF_OWN_TARGET=1"))
    rejects = 'if (getenv("KF_OWN_TARGET")) return KF_REJECTED;'
    status, outcome = outcomes_of(target_at(tmp_path, row, rejects), cache)
    assert isinstance(status, CAttestation)
    assert outcome is not None
    assert outcome.status is Status.REJECTED


@pytest.mark.parametrize(
    ("flag", "tried"),
    [
        ("undefined", "volatile int one = 1; one <<= (int)n + 28;"),
        pytest.param("address", "volatile char *two = malloc(2); two[2] = 1;", marks=pytest.mark.whole),
    ],
)
def test_a_sanitizer_ends_what_is_right_by_luck(tmp_path: Path, cache: Path, flag: str, tried: str) -> None:
    row = OwnTarget("native+san", flags=(f"-fsanitize={flag}", "-fno-sanitize-recover=all"))
    for flags, ending in ((row, Status.DIED), (replace(row, flags=("-O1",)), Status.RAN)):
        _, outcome = outcomes_of(target_at(tmp_path, flags, tried), cache)
        assert outcome is not None
        assert outcome.status is ending


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (OwnTarget("lost", prefix=("no-such-program",)), "no-such-program is not installed"),
        (OwnTarget("lost", prefix=("no-such",), package="some"), "no-such is not installed (apt-get install some)"),
        (OwnTarget("lost", prefix=("/no/such",)), "/no/such does not exist"),
        (OwnTarget("lost", prefix=("/etc/passwd",)), "/etc/passwd is not executable: chmod +x /etc/passwd"),
        (
            OwnTarget("ends", prefix=("sh", "-c", "echo no such processor >&2; echo more >&2; exit 1")),
            "ends starts no worker: no such processor (to see it: ",
        ),
    ],
)
def test_what_starts_no_worker_is_not_held_against_the_kernel(
    tmp_path: Path, cache: Path, row: OwnTarget, said: str
) -> None:
    status, outcome = outcomes_of(target_at(tmp_path, row, ""), cache)
    assert isinstance(status, NotRun)
    assert status.reason.startswith(said)
    assert (status.broken, outcome) == ("", None)


def test_what_hangs_before_it_is_ready_keeps_no_other_target_waiting(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked in steps whether anything starts there, and not for as long as a worker may take."""
    monkeypatch.setattr(c, "_START_LIMIT_S", 0.3)
    monkeypatch.setattr(c, "_BYSTANDER_LIMIT_S", 0.5)
    target = replace(target_at(tmp_path, OwnTarget("sleeps", prefix=("sh", "-c", "sleep 60")), ""), case_limit=0.3)
    status, outcome = outcomes_of(target, cache)
    assert isinstance(status, NotRun)
    assert status.reason.startswith("sleeps starts no worker: it is not ready after 0.5 s (to see it: ")
    assert (status.broken, outcome) == ("", None)
    monkeypatch.setattr(c, "_BYSTANDER_LIMIT_S", 60.0)
    worker = Worker(target, target.adapter.program(target, Builder(cache)), 0.3, Conduct())
    loop, queue, ended = Loop(1), Queue(), list[str]()

    def start() -> Steps[None]:
        try:
            yield from worker.start()
        except LostError as error:
            ended.append(str(error))

    loop.submit(queue, 1, start())
    first = worker.pid
    while worker.pid == first:
        assert loop.advance(0.1)
    worker.stop()
    while loop.advance(0.1):
        pass
    assert ended == ["the session was stopped"]


def test_a_kernel_that_ends_its_own_worker_is_to_blame_under_a_program_too(tmp_path: Path, cache: Path) -> None:
    target = target_at(tmp_path, OwnTarget("polite", prefix=("nice",)), "")
    with target.kernel.source.open("a") as source:
        source.write("__attribute__((constructor)) static void ends(void) { exit(3); }\n")
    status, outcome = outcomes_of(target, cache)
    assert isinstance(status, NotRun)
    assert (status.broken, outcome) == ("the worker cannot be started: ended with exit code 3", None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[valgrind", r"Expected '\]' at the end"),
        ("valgrind = 1", r"valgrind: each row is a table, \[valgrind\]"),
        ('[Nice]\nprefix = ["nice"]', r"Nice: a site is small letters, digits, \+ and -"),
        ('[native]\nprefix = ["nice"]', "native: a site is .* and not native, qemu"),
        ("[a]", "a: say how it differs: prefix = "),
        ('[a]\nprefix = "nice"', "a: prefix: write a list of words, .* not 'nice'"),
        ('[a]\nprefix = [""]', "a: prefix: write a list of words"),
        ('[a]\nprefx = ["nice"]', "a: prefx means nothing; a row has some of prefix, flags, package, seconds"),
        ('[a]\nflags = ["-O3"]\nseconds = -1', "a: seconds: write a number above 0, not -1"),
        ('[a]\nflags = ["-O3"]\nseconds = nan', "a: seconds: write a number above 0, not nan"),
        ('[a]\nflags = ["-O3"]\npackage = 3', "a: package: write the name of a Debian package, not 3"),
        ('[a]\nprefix = ["/usr/bin/ssh", "b"]', 'a: ssh runs it on another machine: say which kind, arch = "aarch64"'),
        ('[a]\nprefix = ["ssh", "b"]\narch = "vax"', "a: arch: it is that of another machine, x86_64, .* or ppc64le"),
        ('[a]\nflags = ["-O3"]\narch = "aarch64"', "a: arch: it is that of another machine, .*, with a prefix"),
        ('[a]\nprefix = ["ssh", "b"]\narch = "aarch64"\nsettings = 256', "a: settings: write a table, { vl = 256 }"),
        ('[a]\nprefix = ["nice"]\nsettings = { vl = 256 }', "a: settings: they are those of another machine"),
    ],
)
def test_a_row_that_says_nothing_sensible_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(OwnTargetError, match=said) as caught:
        own_targets(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_program_of_the_pack_is_found_from_anywhere(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('[mine]\nprefix = ["./start", "./as-it-is"]')
    [row] = own_targets(tmp_path)
    assert row.prefix == (str(tmp_path / "start"), "./as-it-is")
