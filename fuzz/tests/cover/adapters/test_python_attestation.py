"""What a worker of Python kernels is and says of itself, and why one cannot start."""

from __future__ import annotations

import os
import platform
import re
import socket
import struct
import subprocess
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from fuzz.core.adapters.cuda import VISIBLE, driver_answer, no_cuda_device
from fuzz.core.adapters.python import PythonAdapter
from fuzz.core.adapters.python_kernel import FRAMEWORKS, DevicePlacement, PythonKernel
from fuzz.core.adapters.python_program import PythonAttestation
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import Attestation, NotRun
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.capability import DeclarationError
from fuzz.core.base.kernel import Mutant
from fuzz.core.base.outcome import Status
from fuzz.core.base.packages import APT
from fuzz.core.base.probe import MODE, probed
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.transport.python import attest
from fuzz.core.transport.python.kernel import Spec
from fuzz.report.records import environment
from fuzz.tests.common.planted import a_case
from fuzz.tests.common.python_planted import BAD, TORCH_HEAD, TRITON, TRITON_HEAD, indented, outcomes, python_target
from fuzz.tests.common.told import counts_of
from fuzz.tests.conftest import CHECKOUT, HANG_S


@pytest.mark.whole
def test_a_mutant_runs_the_edited_source(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "helper.py").write_text("FACTOR = 1\n")
    target = python_target(tmp_path, "from .helper import FACTOR\n" + TORCH_HEAD + indented("y.copy_(x * FACTOR)"))
    mutant = Mutant(
        "twice", "planted", (("x * FACTOR", "x * 2 * FACTOR"),), ("*",), "always", ("FAIL_NUMERIC",), "none"
    )
    (edited,) = expand([mutant.apply(replace(target.kernel, devices=("cpu",)))], this_host())
    assert edited.id == "torch-twice@cpu"
    with WorkerPool([target, edited], cache=cache) as pool:
        (found,) = pool.submit([a_case()]).outcomes()
    assert found[target.id].outputs["y"] == a_case().inputs["x"].bits
    assert list(memoryview(found[edited.id].outputs["y"]).cast("f"))[:2] == [2, 4]


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "import no_such_module\n",
            "planted: planted.py: ModuleNotFoundError: No module named 'no_such_module' (planted",
        ),
        ("def rms_norm(:\n", "SyntaxError"),
        ("def other(): pass\n", "planted: planted.py: it has no function 'rms_norm'"),
    ],
)
def test_a_kernel_that_cannot_be_loaded_is_one_clear_line(tmp_path: Path, cache: Path, text: str, said: str) -> None:
    target = python_target(tmp_path, text)
    with WorkerPool([target], cache=cache) as pool:
        status = pool.statuses[target.id]
    assert isinstance(status, NotRun)
    assert status.broken == status.reason
    assert said in status.reason
    assert "\n" not in status.reason


@pytest.mark.some(1)
@pytest.mark.parametrize(
    "error",
    [
        OSError("CUDA_HOME environment variable is not set. Please set it to your CUDA install root."),
        RuntimeError("0 active drivers ([]). There should only be one."),  # of Triton, asked for its device
    ],
)
def test_a_kernel_that_needs_cuda_to_be_loaded_is_not_to_blame_where_there_is_none(
    tmp_path: Path, cache: Path, error: Exception
) -> None:
    target = python_target(tmp_path, f"raise {error!r}\n")
    with WorkerPool([target], cache=cache) as pool:
        status = pool.statuses[target.id]
    assert isinstance(status, NotRun)
    assert (status.broken, status.reason.partition(": ")[0]) == ("", "no CUDA here, which it needs to be loaded")


@pytest.mark.parametrize(
    "asks",
    [
        "assert x.is_cuda",
        "exec('assert 0, \"Torch not compiled with CUDA enabled\"')",
        "raise ValueError('needs CUDA')",
    ],
)
def test_a_kernel_that_needs_cuda_in_each_call_did_not_run_and_one_that_has_returned_is_to_blame(
    tmp_path: Path, cache: Path, asks: str
) -> None:
    for guard, wanted in (("", [Status.NOT_RUN] * 2), ("if x[0, 0] != x[0, 0]: ", [Status.RAN, Status.RAISED])):
        wanted = [Status.RAN, Status.REJECTED] if guard and "ValueError" in asks else wanted
        target = python_target(tmp_path, f"{TORCH_HEAD}    {guard}{asks}\n    y.copy_(x)\n")
        found = outcomes(target, cache, a_case(), BAD)
        assert [each.status for each in found] == wanted, found


def test_what_asks_for_a_stream_of_a_gpu_did_not_run_in_the_interpreter(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VISIBLE, "")
    asks = TRITON.replace("axis):\n", "axis):\n    torch.cuda.current_stream()\n")
    [outcome] = outcomes(python_target(tmp_path, TRITON_HEAD + asks, "triton", "interpret"), cache, a_case())
    assert outcome.status is Status.NOT_RUN, outcome
    assert "no CUDA here" in str(outcome)


def test_what_asks_for_tensors_of_a_gpu_runs_in_the_interpreter_of_triton(tmp_path: Path, cache: Path) -> None:
    asking = TRITON.replace("axis):\n", "axis):\n    assert x.is_cuda and torch.empty_like(y).is_cuda\n")
    [outcome] = outcomes(python_target(tmp_path, TRITON_HEAD + asking, "triton", "interpret"), cache, a_case())
    assert outcome.outputs["y"] == a_case().inputs["x"].bits, outcome


def test_a_module_of_the_interpreter_is_called_in_its_other_mode(tmp_path: Path, cache: Path) -> None:
    module = "\nmodel = torch.nn.Module()\nrms_norm.models = lambda: [model]\n"
    modal = TRITON.replace("program[(x.shape[0],)](x,", "program[(x.shape[0],)](x if model.training else 2 * x,")
    target = python_target(tmp_path, TRITON_HEAD + modal + module, "triton", "interpret")
    usual, other = outcomes(target, cache, a_case(), probed(a_case(), MODE))
    assert (usual.status, other.status) == (Status.RAN, Status.RAN), other
    assert list(memoryview(other.outputs["y"]).cast("f")) == [2 * x for x in memoryview(usual.outputs["y"]).cast("f")]


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"digest": "0000"}, "code 0000 was requested"),
        ({"target": "interpret"}, "compiled code was requested, the worker runs interpreted code"),
    ],
)
def test_an_attestation_is_held_to_its_target(
    tmp_path: Path, cache: Path, change: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = python_target(tmp_path, TRITON_HEAD + TRITON, "triton", "interpret")
    if "digest" in change:
        monkeypatch.setattr("fuzz.core.adapters.python_program.source_digest", lambda texts: "0000")
    else:
        compiled = replace(FRAMEWORKS["triton"], places=(DevicePlacement("interpret", "compiled", 30.0),))
        target = replace(target, adapter=PythonAdapter(compiled))
    with WorkerPool([target], cache=cache) as pool:
        status = pool.statuses[target.id]
    assert isinstance(status, NotRun)
    assert said in status.broken


@pytest.mark.whole
def test_a_target_that_finds_no_device_once_started_did_not_run(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver counts a device that the worker cannot use."""
    monkeypatch.setattr("fuzz.core.adapters.cuda.no_cuda_device", lambda: None)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    target = python_target(tmp_path, TORCH_HEAD + indented("y.copy_(x)"), device="cuda")
    with WorkerPool([target], cache=cache) as pool:
        status = pool.statuses[target.id]
    assert isinstance(status, NotRun)
    assert status.reason.startswith("no CUDA device: torch")


def test_without_a_driver_there_is_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    driver_answer.cache_clear()
    monkeypatch.setattr("ctypes.CDLL", missing)
    assert no_cuda_device.__wrapped__() == "no CUDA device (the driver, libcuda.so.1, is not installed)"
    driver_answer.cache_clear()


def test_a_worker_says_what_its_figures_depend_on(tmp_path: Path, cache: Path) -> None:
    """The version of Python is no part of it: it computes nothing."""
    target = python_target(tmp_path, TRITON_HEAD + TRITON, "triton", "interpret")
    with WorkerPool([target], cache=cache) as pool:
        status = pool.statuses[target.id]
    assert isinstance(status, Attestation)
    processor, mode, *libraries = status.surroundings.split(", ")
    assert processor.startswith(f"{platform.machine()} ")
    assert mode == "interpreted code"
    assert [each.partition("+")[0] for each in libraries] == [  # a build of its own may say more than its package
        f"{name} {metadata.version(name).partition('+')[0]}" for name in ("torch", "triton", "numpy")
    ]


@pytest.mark.whole
def test_a_worker_runs_under_a_tool(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the tool prints is kept apart from the frames, what it reports is of the case that ran, and tensors end
    where their memory does."""
    tool, report = tmp_path / "tool", tmp_path / "report"
    tool.write_text(f'#!/bin/sh\necho "========= A TOOL"\nln -f "$2" {report}\nshift 2\nexec "$@"\n')
    tool.chmod(0o755)
    monkeypatch.setattr("fuzz.core.adapters.cuda.program_of", lambda name: (str(tool),))
    room = "x.untyped_storage().nbytes() - x.storage_offset() * 4"
    told = f"open({str(report)!r}, 'a').write('========= Error: a race\\n=========     at y\\n')"
    body = f"y.copy_(x)\ny[0, 0] = {room}\nos._exit(7) if x[0, 0] == 9 else {told} if x[0, 0] == 8 else 0"
    target = replace(python_target(tmp_path, TORCH_HEAD + indented(body)), sanitizer="racecheck")
    nine, eight = (a_case(bits=struct.pack("<12f", *[first] * 12)) for first in (9, 8))
    ran, told_of, again, died = outcomes(target, cache, a_case(), eight, a_case(), nine)
    assert struct.unpack_from("<f", ran.outputs["y"]) == (48,)
    assert (told_of.status, told_of.detail) == (Status.REPORTED, "a race at y")
    assert again.status is Status.RAN
    assert (died.status, died.detail) == (Status.DIED, "ended with exit code 7: ========= A TOOL")


def test_a_missing_package_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = python_target(tmp_path, TRITON_HEAD + TRITON, "triton", "interpret")
    monkeypatch.setattr("fuzz.core.adapters.python.find_spec", lambda name: None if name == "triton" else name)
    assert target.unavailable() == "triton is not installed: pip install triton"
    monkeypatch.setattr("fuzz.core.adapters.python.find_spec", lambda name: None)
    assert target.unavailable() == "torch is not installed: pip install torch"


def test_a_program_that_a_kernel_needs_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = PythonKernel("k", "rms_norm", Path("k.py"), "torch", devices=("cpu",), programs=("g++",))
    (target,) = expand([kernel], this_host())
    assert target.unavailable() is None
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("fuzz.core.base.packages.manager", lambda: APT)
    assert target.unavailable() == "g++ is not installed (apt-get install g++)"


def test_an_interpreter_that_cannot_loop_is_named_and_nothing_runs_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton 3.6 makes an index of an array of one element, which NumPy 2.5 refuses: no kernel's fault."""
    monkeypatch.setattr("fuzz.core.transport.python.probe.loop_fault", lambda: "TypeError: only 0-dimensional arrays")
    import torch

    spec = Spec("kernel.py", ".", "rms_norm", "rms_norm", "triton", "interpret", {}, {})
    hello = attest.attested(spec, None, torch)  # type: ignore[arg-type]
    assert hello.startswith("missing=Triton ")
    assert hello.count("\n") == 0
    assert "cannot loop with NumPy" in hello
    assert "only 0-dimensional arrays" in hello


@pytest.mark.whole
def test_the_server_ends_without_a_word() -> None:
    """It outlives the run's last line: what Triton has to say of its own leaks would come after it."""
    ours, its = socket.socketpair()
    command = [
        sys.executable,
        "-m",
        "fuzz.core.transport.python",
        "serve",
        str(its.fileno()),
        "torch",
        "triton.language",
    ]
    with ours, its, subprocess.Popen(command, pass_fds=[its.fileno()], stderr=subprocess.PIPE) as server:
        its.close()
        ours.close()
        _, said = server.communicate(timeout=HANG_S)
    assert (server.returncode, said) == (0, b"")


def test_a_kernel_has_the_environment_that_it_asks_for(tmp_path: Path, cache: Path) -> None:
    text = "import os\nFACTOR = float(os.environ['FACTOR'])\n" + TORCH_HEAD + indented("y.copy_(x * FACTOR)")
    twice, thrice = ({"FACTOR": factor, "AT_SIGN": "a=b\nc"} for factor in ("2", "3"))
    targets = [
        replace(target, kernel=kernel, name=replace(target.name, kernel=kernel.name))
        for name, variables in (("twice", twice), ("thrice", thrice))
        for target in [python_target(tmp_path, text)]
        for kernel in [replace(target.kernel, name=name, environment=variables)]
    ]
    assert len({target.kernel for target in targets}) == 2, "a kernel with variables has a hash"
    with WorkerPool(targets, cache=cache) as pool:
        (found,) = pool.submit([a_case()]).outcomes()
        said = [pool.statuses[target.id] for target in targets]
    assert [memoryview(found[target.id].outputs["y"]).cast("f")[0] for target in targets] == [2, 3]
    assert [isinstance(each, PythonAttestation) and each.variables for each in said] == [twice, thrice]
    assert isinstance(said[0], Attestation)
    assert said[0].words.endswith(", AT_SIGN='a=b\\nc', FACTOR='2'")
    assert "FACTOR" not in os.environ


def test_a_source_that_changes_what_it_is_declared_with_is_refused(tmp_path: Path, cache: Path) -> None:
    text = "import os\nos.environ['BACKEND'] = 'numpy'\n" + TORCH_HEAD + indented("y.copy_(x)")
    target = python_target(tmp_path, text, environment={"BACKEND": "torch"})
    said = "planted.py: it is declared with BACKEND='torch', and its source makes that 'numpy'"
    with WorkerPool([target], cache=cache) as pool:
        status = pool.statuses[target.id]
    assert isinstance(status, NotRun)
    assert said in status.reason


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"environment": "BACKEND=torch"}, 'environment: write {"NAME": "value"}'),
        ({"environment": {"OMP_NUM_THREADS": 1}}, "environment: 'OMP_NUM_THREADS' = 1: names and values are strings"),
        ({"environment": (("A=B", "c"),)}, "environment: 'A=B' = 'c'"),
        ({"environment": {"TRITON_INTERPRET": "1"}}, "environment: TRITON_INTERPRET follows from the target"),
        ({"packages": ("keras>=3",)}, "packages: 'keras>=3' is no name that can be imported"),
    ],
)
def test_a_wrong_environment_or_package_is_refused(declared: dict[str, Any], said: str) -> None:
    with pytest.raises(DeclarationError, match=re.escape(said)):
        PythonKernel("k", "rms_norm", Path("k.py"), "torch", **declared)


@pytest.mark.whole
def test_the_packages_that_a_kernel_names_are_attested_or_missing(tmp_path: Path, cache: Path) -> None:
    text = "import mpmath\n" + TORCH_HEAD + indented("y.copy_(x)")
    target = python_target(tmp_path, text, packages=("mpmath", "yaml"))
    with WorkerPool([target], cache=cache) as pool:
        status = pool.statuses[target.id]
    assert isinstance(status, PythonAttestation)
    here = {"mpmath": metadata.version("mpmath"), "yaml": metadata.version("PyYAML")}
    assert {name: status.versions[name] for name in here} == here
    assert f"mpmath {here['mpmath']}" in status.words
    assert environment([target.kernel])["packages"].items() >= here.items()
    lacking = replace(target, kernel=replace(target.kernel, packages=("no_such_package",)))
    assert lacking.unavailable() == "no_such_package is not installed"


@pytest.mark.whole
def test_a_file_beside_the_user_is_not_taken_for_a_module_of_a_library(tmp_path: Path) -> None:
    """Python looks for `nt` and `random` in the current folder first; kernels find theirs there all the same."""

    def run(*words: str) -> str:
        command = [sys.executable, "-P", "-m", "fuzz", *words]
        own = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
        done = subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("init", "pack", "--kind", "torch")
    for name in ("nt", "random"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('not meant')\n")
    (tmp_path / "mylib.py").write_text("ONE = 1.0\n")
    source = tmp_path / "pack" / "mine.py"
    source.write_text(source.read_text().replace("import torch\n", "import torch\nfrom mylib import ONE\n", 1))
    assert counts_of(run("run", "--pack", "pack", "--max-cases", "8", "--seed", "1", "-j", "1")) == (8, 8)
