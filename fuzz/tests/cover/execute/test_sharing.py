"""Kernels that share a process, one after the other, as on a GPU all of them do: each is judged as if it were alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from fuzz.core.adapters.python_kernel import PythonKernel
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import Attestation, NotRun, Target
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.case import Case
from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.execute.lane import UNSEEN
from fuzz.core.execute.pool import WorkerPool
from fuzz.tests.common.planted import ANYTHING, a_case
from fuzz.tests.common.python_planted import BAD, indented

_CALLS = "global calls\ncalls = calls + 1\ny[:] = 0\ny[0, :2] = calls, os.getpid()"
"""It says how often it was called, and in which process."""


def _target(folder: Path, name: str, body: str, **declared: object) -> Target:
    source = folder / f"{name}.py"
    source.write_text(f"import os\ncalls = 0\n\n\ndef rms_norm(x, y, eps, axis):\n{indented(body)}")
    declared = {"capabilities": ANYTHING, "devices": ("cpu",), **declared}
    kernel = PythonKernel(name, "rms_norm", source, "numpy", **declared)  # type: ignore[arg-type]
    [target] = expand([kernel], this_host())
    return replace(target, shares=True)


def _told(pool: WorkerPool, case: Case, *targets: Target) -> Mapping[str, tuple[float, ...]]:
    """By kernel, what it wrote first."""
    [found] = pool.submit([case], {name for name in pool.statuses if name not in {t.id for t in targets}}).outcomes()
    return {t.kernel.name: tuple(memoryview(found[t.id].outputs["y"]).cast("f")[:2]) for t in targets}


def _outcome(pool: WorkerPool, case: Case, target: Target) -> Outcome:
    [found] = pool.submit([case], {name for name in pool.statuses if name != target.id}).outcomes()
    return found[target.id]


def test_kernels_take_over_one_process_and_find_what_they_left_there(tmp_path: Path, cache: Path) -> None:
    """As a kernel alone would: how many calls it had, whatever others do meanwhile."""
    one, other = (_target(tmp_path, name, _CALLS) for name in ("one", "other"))
    with WorkerPool([one, other], cache=cache, jobs=1) as pool:
        assert len(pool.pids) == 1
        told = [_told(pool, a_case(), each) for each in (one, other, other, one)]
        assert len(pool.pids) == 1
    calls, processes = zip(*(next(iter(each.values())) for each in told), strict=True)
    assert len(set(processes)) == 1
    assert all(later > earlier for earlier, later in ((calls[0], calls[3]), (calls[1], calls[2])))


def test_targets_that_do_not_share_have_processes_of_their_own(tmp_path: Path, cache: Path) -> None:
    targets = [replace(_target(tmp_path, name, _CALLS), shares=False) for name in ("one", "other")]
    with WorkerPool(targets, cache=cache) as pool:
        assert len(set(pool.pids.values())) == 2


def test_kernels_of_other_variables_share_nothing(tmp_path: Path, cache: Path) -> None:
    """Libraries read them when they are first used."""
    one = _target(tmp_path, "one", _CALLS)
    other = _target(tmp_path, "other", _CALLS, environment={"SOME_CACHE": "1"})
    with WorkerPool([one, other], cache=cache) as pool:
        assert len(set(pool.pids.values())) == 2


def test_kernels_of_one_file_have_one_module(tmp_path: Path, cache: Path) -> None:
    """It may register what can be registered once."""
    one = _target(tmp_path, "one", "y[:] = x\ny[0, 0] = (id(mine) >> 4) % 2**24")
    one.kernel.source.write_text(f"mine = []\n{one.kernel.source.read_text()}\nagain = rms_norm\n")
    other = replace(one, kernel=replace(one.kernel, entry="again"), name=replace(one.name, kernel="other"))
    with WorkerPool([one, other], cache=cache, jobs=1) as pool:
        first, second = (_told(pool, a_case(), each)["one"] for each in (one, other))
    assert first == second


def test_what_cannot_be_loaded_where_others_have_been_has_a_process_of_its_own(tmp_path: Path, cache: Path) -> None:
    """Two files that register the same are none the worse for it."""
    names = ("one", "other", "third")
    targets = [_target(tmp_path, name, "y[:] = x") for name in names]
    for target in targets[:2]:
        source, name = target.kernel.source, target.kernel.name
        registers = f"if sys.modules.setdefault('mine', {name!r}) != {name!r}:\n    raise RuntimeError('known')"
        source.write_text(f"import sys\n{registers}\n{source.read_text()}")
    with WorkerPool(targets, cache=cache, jobs=1) as pool:
        found = [_outcome(pool, a_case(), each).status for each in (*targets, *targets)]
        assert len(set(pool.pids.values())) == 2
    assert found == [Status.RAN] * 6


def test_a_death_is_the_finding_of_the_kernel_that_died(tmp_path: Path, cache: Path) -> None:
    """Not of one before it, nor of the next, which loses nothing."""
    dies = _target(tmp_path, "dies", "if x[0, 0] != x[0, 0]: os._exit(9)\ny[:] = x")
    fine = _target(tmp_path, "fine", "y[:] = x")
    with WorkerPool([dies, fine], cache=cache, jobs=1) as pool:
        found = [_outcome(pool, *each) for each in ((a_case(), dies), (BAD, fine), (BAD, dies), (BAD, fine))]
    assert [each.status for each in found] == [Status.RAN, Status.RAN, Status.DIED, Status.RAN]


@pytest.mark.parametrize(
    ("change", "said"), [("os.environ['LEFT'] = 'behind'", "the variables differ"), ("os.umask(0o77)", "mask")]
)
def test_what_a_kernel_changes_is_told_of_it_alone(tmp_path: Path, cache: Path, change: str, said: str) -> None:
    """The next kernel has a process that is as it was."""
    changes = _target(tmp_path, "changes", f"{change}\ny[:] = x")
    fine = _target(tmp_path, "fine", "y[:] = 'LEFT' in os.environ or os.umask(0o22) != 0o22")
    with WorkerPool([fine, changes], cache=cache, jobs=1) as pool:
        before, changed, after = (_outcome(pool, a_case(), each) for each in (fine, changes, fine))
    assert [said in each.words for each in changed.changes] == [True]
    assert (before.changes, after.changes) == ((), ())
    assert set(memoryview(after.outputs["y"]).cast("f")) == {0.0}


def test_what_a_library_sets_up_is_not_told_of_the_kernel_that_runs_next(tmp_path: Path, cache: Path) -> None:
    """The one that imports it is not told of either: libraries set up what they need."""
    imports = _target(tmp_path, "imports", "import this_is_new\ny[:] = x")
    library = tmp_path / "library"  # what lies beside a kernel is its own, and its process then too
    library.mkdir()
    (library / "this_is_new.py").write_text("import os\nos.environ['LEFT'] = 'behind'\n")
    imports.kernel.source.write_text(
        f"import sys\nsys.path.append({str(library)!r})\n{imports.kernel.source.read_text()}"
    )
    fine = _target(tmp_path, "fine", "y[:] = x\ny[0, 0] = 'LEFT' in __import__('os').environ")
    with WorkerPool([fine, imports], cache=cache, jobs=1) as pool:
        found = [_outcome(pool, a_case(), each) for each in (fine, imports, fine)]
    assert not any(each.changes for each in found)
    assert memoryview(found[-1].outputs["y"]).cast("f")[0] == 1.0  # it is in the same process


def test_a_worker_that_is_renewed_gets_a_process_that_nobody_used(tmp_path: Path, cache: Path) -> None:
    targets = [_target(tmp_path, name, _CALLS) for name in ("one", "other")]
    with WorkerPool(targets, cache=cache, jobs=1) as pool:
        before = _told(pool, a_case(), *targets)
        pool.renew()
        after = _told(pool, a_case(), *targets)
    assert before["one"][0] == after["one"][0]
    assert len({each[1] for each in (*before.values(), *after.values())}) >= 2


def test_where_it_need_not_be_there_at_once_a_worker_starts_with_its_first_case(tmp_path: Path, cache: Path) -> None:
    one, broken = _target(tmp_path, "one", _CALLS), _target(tmp_path, "broken", "y[:] = x")
    broken.kernel.source.write_text("raise RuntimeError('no such luck')\n")
    with WorkerPool([one, broken], cache=cache, jobs=1, at_once=False) as pool:
        assert set(pool.statuses.values()) == {UNSEEN}
        assert not pool.pids
        assert _outcome(pool, a_case(), one).status is Status.RAN
        found = _outcome(pool, a_case(), broken)
    assert found.status is Status.NOT_RUN
    assert "no such luck" in found.detail
    with WorkerPool([one, broken], cache=cache, jobs=1) as pool:
        assert [type(pool.statuses[each.id]) for each in (one, broken)] != [Attestation, Attestation]
        assert isinstance(pool.statuses[broken.id], NotRun)
