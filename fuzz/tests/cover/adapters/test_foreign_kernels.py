"""Kernels of a pack whose arrays are another library's: made of those of a case, and read again by DLPack."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fuzz.core.adapters.python_kernel import PythonKernel
from fuzz.core.adapters.python_program import PythonAttestation
from fuzz.core.adapters.registry import expand
from fuzz.core.base.capability import Capabilities, DeclarationError
from fuzz.core.base.outcome import Status
from fuzz.core.execute.pool import WorkerPool
from fuzz.tests.common.planted import ANYTHING, a_case
from fuzz.tests.common.python_planted import outcomes, python_target
from fuzz.tests.conftest import Cli

FOREIGN = "fuzz.tests.common.foreign_array.Foreign"
_TEXT = """
from fuzz.tests.common.foreign_array import Foreign


def rms_norm(x, eps, axis):
    assert type(x) is Foreign
    if x.values[0, 0] != x.values[0, 0]:
        return x.values.dtype
    return Foreign(x.values)
"""


def test_a_kernel_is_given_arrays_of_its_library(tmp_path: Path, cache: Path) -> None:
    able = Capabilities(dtypes=ANYTHING.dtypes)
    target = python_target(tmp_path, _TEXT, "dlpack", arrays=FOREIGN, capabilities=able)
    bad = a_case(bits=b"\xff" * 48)
    right, wrong = outcomes(target, cache, a_case(), bad)
    assert (right.status, right.outputs) == (Status.RAN, {"y": a_case().inputs["x"].bits})
    assert wrong.status is Status.RAISED
    assert "returned no array for it" in wrong.detail


def test_it_says_what_it_runs_with(tmp_path: Path, cache: Path) -> None:
    target = python_target(tmp_path, _TEXT, "dlpack", arrays=FOREIGN, capabilities=Capabilities())
    with WorkerPool([target], cache=cache) as pool:
        status = pool.statuses[target.id]
    assert isinstance(status, PythonAttestation)
    assert (target.id, status.mode) == ("dlpack-planted@cpu", "dlpack")
    assert {"numpy", "fuzz"} <= {*status.versions}


@pytest.mark.parametrize(
    ("framework", "declared", "why"),
    [
        ("dlpack", {}, "arrays: name what makes its arrays of NumPy's, such as "),
        ("jax", {"arrays": "jax.numpy.array"}, "arrays: those of jax are made already"),
        ("dlpack", {"arrays": "array"}, "arrays: 'array' is no function with its module"),
        ("cupy", {"devices": ("cpu",)}, "devices: 'cpu' is not one of cuda"),
    ],
)
def test_what_is_declared_wrong_is_one_line(framework: str, declared: dict[str, Any], why: str) -> None:
    with pytest.raises(DeclarationError) as error:
        PythonKernel("k", "softmax", Path("k.py"), framework, **declared)
    assert str(error.value).startswith(why)


def test_a_library_that_is_not_there_is_not_run() -> None:
    [target] = expand([PythonKernel("k", "softmax", Path("k.py"), "dlpack", arrays="nolib.array", devices=("cpu",))])
    assert target.unavailable() == "nolib is not installed"


@pytest.mark.whole
def test_a_function_that_is_not_there_is_one_line(tmp_path: Path, cli_here: Cli) -> None:
    (tmp_path / "mine.py").write_text("def softmax(x):\n    return x\n")
    (tmp_path / "pack.py").write_text(
        "from pathlib import Path\nfrom fuzz import PythonKernel\n"
        "KERNELS = (PythonKernel('mine', 'softmax', Path(__file__).parent / 'mine.py', 'dlpack', arrays='json.array',\n"
        "                        devices=('cpu',)),)\n"
    )  # fmt: skip
    done = cli_here("run", "--pack", str(tmp_path), "--max-cases", "4")
    assert "arrays: json.array: module 'json' has no attribute 'array'" in done.stdout
