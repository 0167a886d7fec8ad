"""A pack that is edited while a run goes on, and sources that are links: the code of the start runs to the end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.adapters.python_kernel import PythonKernel
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import Target
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.kernel import Kernel
from fuzz.core.execute.pool import WorkerPool
from fuzz.tests.common.handmade import a_case, dense

CASE = a_case("rms_norm", (), (2, 5), layout=dense)
C = """#include "kernelfuzz.h"
#include "factor.h"
int kf_rms_norm(const kf_rms_norm_call *call) {
    for (int i = 0; i < 10; i++) ((float *)call->y.data)[i] = FACTOR;
    return KF_OK;
}
"""
PYTHON = """from .factor import FACTOR
def rms_norm(x, y, eps, axis, **rest):
    y.fill_(FACTOR)
"""


def in_c(folder: Path) -> Kernel:
    (folder / "k.c").write_text(C)
    (folder / "factor.h").write_text("#define FACTOR 3\n")
    return CKernel("k", "rms_norm", folder / "k.c")


def in_python(folder: Path) -> Kernel:
    (folder / "k.py").write_text(PYTHON)
    (folder / "factor.py").write_text("FACTOR = 3\n")
    return PythonKernel("k", "rms_norm", folder / "k.py", "torch", devices=("cpu",))


def break_files(folder: Path) -> None:
    """As an editor does: other code, code that does not compile, a file that is gone."""
    for path in folder.glob("factor.*"):
        path.write_text("#define FACTOR 4\n" if path.suffix == ".h" else "FACTOR = 4\n")
    for path in folder.glob("k.*"):
        path.unlink()


def target_of(kernel: Kernel) -> Target:
    return next(t for t in expand([kernel], this_host()) if t.unavailable() is None)


def written(pool: WorkerPool, target: Target) -> float:
    (outcomes,) = pool.submit([CASE]).outcomes()
    outcome = outcomes[target.id]
    assert outcome.status.value == "ran", outcome
    return float(np.frombuffer(outcome.outputs["y"], "<f4")[0])


@pytest.mark.some(1)
@pytest.mark.parametrize("make", [in_c, in_python])
def test_what_is_saved_during_a_run_is_of_the_next_run(tmp_path: Path, own_cache: Path, make: object) -> None:
    assert callable(make)
    (tmp_path / "pack").mkdir()
    target = target_of(make(tmp_path / "pack"))
    with WorkerPool([target], cache=own_cache) as pool:
        assert written(pool, target) == 3
        break_files(tmp_path / "pack")
        pool.renew()  # as after a crash
        assert written(pool, target) == 3
        with WorkerPool([target], cache=own_cache) as explaining:
            assert written(explaining, target) == 3
        with WorkerPool([target], cache=tmp_path / "another") as elsewhere:  # where nothing is built yet
            assert written(elsewhere, target) == 3
    (tmp_path / "pack" / f"k{target.adapter.suffix}").write_text(C if make is in_c else PYTHON)
    factor = tmp_path / "pack" / ("factor.h" if make is in_c else "factor.py")
    kernel = make(tmp_path / "pack")
    factor.write_text(factor.read_text().replace("3", "4"))
    with WorkerPool([target_of(kernel)], cache=own_cache) as pool:
        assert written(pool, target) == 4


@pytest.mark.parametrize("make", [in_c, in_python])
@pytest.mark.parametrize("link", ["source", "pack", "both"])
def test_a_source_may_be_a_symbolic_link(tmp_path: Path, cache: Path, make: object, link: str) -> None:
    assert callable(make)
    (tmp_path / "real").mkdir()
    kernel = make(tmp_path / "real")
    folder, source = tmp_path / "real", kernel.source
    if link != "pack":
        (tmp_path / "linked").mkdir()
        folder = tmp_path / "linked"
        for path in (tmp_path / "real").iterdir():
            (folder / path.name).symlink_to(path)
        (folder / ".#k.py").symlink_to("an editor's lock, which leads nowhere")
        source = folder / source.name
    if link != "source":
        (tmp_path / "pack").symlink_to(folder)
        source = tmp_path / "pack" / source.name
    linked = CKernel("k", "rms_norm", source) if make is in_c else PythonKernel(
        "k", "rms_norm", source, "torch", devices=("cpu",))  # fmt: skip
    target = target_of(linked)
    with WorkerPool([target], cache=cache) as pool:
        assert written(pool, target) == 3


def test_beside_a_linked_python_source_its_own_folder_counts_too(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "pack").mkdir()
    source = in_python(tmp_path / "real").source
    (tmp_path / "pack" / "k.py").symlink_to(source)
    target = target_of(PythonKernel("k", "rms_norm", tmp_path / "pack" / "k.py", "torch", devices=("cpu",)))
    with WorkerPool([target], cache=cache) as pool:
        assert written(pool, target) == 3


AT_HOME = {
    "by file": "FACTOR = int((Path(__file__).parent / 'factor.txt').read_text())",
    "by import": "from factor import FACTOR",
    "by package": "from factors import FACTOR",
    "by resources": "FACTOR = int(files(__package__).joinpath('factor.txt').read_text())",
}


@pytest.mark.parametrize("way", AT_HOME)
def test_what_lies_beside_a_python_source_is_there(tmp_path: Path, cache: Path, way: str) -> None:
    """A module that is called like a library is left to the library."""
    (tmp_path / "factors").mkdir()
    (tmp_path / "factors" / "__init__.py").write_text("from numpy import full\nFACTOR = int(full((), 3))\n")
    (tmp_path / "factor.txt").write_text("3\n")
    (tmp_path / "factor.py").write_text("import colorsys\nFACTOR = 3\n")
    (tmp_path / "colorsys.py").write_text("raise OSError\n")
    head = "from importlib.resources import files\nfrom pathlib import Path\n"
    call = "def rms_norm(x, y, eps, axis, **rest): y.fill_(FACTOR)\n"
    (tmp_path / "k.py").write_text(f"{head}{AT_HOME[way]}\n{call}")
    target = target_of(PythonKernel("k", "rms_norm", tmp_path / "k.py", "torch", devices=("cpu",)))
    with WorkerPool([target], cache=cache) as pool:
        assert written(pool, target) == 3


def test_frames_have_the_names_of_the_files_beside_the_source_and_the_lines_that_run(
    tmp_path: Path, cache: Path
) -> None:
    """A kernel that looks for its caller's folder finds its own, and not that of a copy."""
    (tmp_path / "factor.py").write_text("import inspect\ndef frames(): return inspect.stack()[:2]\n")
    head = "import pathlib\nfrom factor import frames\nHERE = str(pathlib.Path(__file__).parent)\n"
    body = "    beside, own = frames()\n    y.fill_(3)\n"
    ends = f"    y.mul_(beside.filename == HERE + '/factor.py' and own.filename == {str(tmp_path / 'k.py')!r})\n"
    lines = "    y.mul_(own.code_context == ['    beside, own = frames()\\n'])\n"
    (tmp_path / "k.py").write_text(f"{head}def rms_norm(x, y, eps, axis, **rest):\n{body}{ends}{lines}")
    target = target_of(PythonKernel("k", "rms_norm", tmp_path / "k.py", "torch", devices=("cpu",)))
    with WorkerPool([target], cache=cache) as pool:
        (tmp_path / "k.py").write_text("saved meanwhile\n" * 9)
        assert written(pool, target) == 3
