"""Kernels of CUDA: what follows from a prototype and a launch, what cannot be built, what a device does."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fuzz import Capabilities, CudaKernel
from fuzz.core.adapters import python_program, toolchain
from fuzz.core.adapters.build import Builder, BuildError
from fuzz.core.adapters.export import Script
from fuzz.core.adapters.python_kernel import FRAMEWORKS
from fuzz.core.adapters.python_program import PythonAttestation
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import Target
from fuzz.core.adapters.toolchain import Tool
from fuzz.core.base.capability import DeclarationError
from fuzz.core.base.case import Case, Output, Tensor, contiguous
from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.transport.python import launch
from fuzz.extras import cuda
from fuzz.extras.cuda import CudaBuild, functions, launching
from fuzz.tasks.beginning.declared import PROTOTYPE
from fuzz.tests.common.cuda_pack import BREAKS, cuda_kernel
from oracles.formula.contract import Within

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")


class _Program:
    """Stands for what launches: it keeps what it was given."""

    given: list[Any]

    def __init__(self, cubin: str, symbol: str, name: str, types: list[str]) -> None:
        self.types = types

    def __call__(self, *given: Any) -> None:
        _Program.given = [self.types, *given]


def _launched(kernel: CudaKernel, monkeypatch: pytest.MonkeyPatch, **given: Any) -> list[Any]:
    monkeypatch.setattr(launch, "CubinFunction", _Program)
    kernel.check_op()
    module: dict[str, Any] = {}
    exec(launching(kernel, "'a.cubin', 'f'"), module)
    module[kernel.op](**given)
    return _Program.given


def test_a_launch_is_written_from_a_prototype(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, weight = torch.zeros(2, 3, 300), torch.zeros(2, 3, 300), torch.zeros(300)
    plain = CudaKernel("k", "softmax", "k.cu", PROTOTYPE)
    assert _launched(plain, monkeypatch, x=x, y=y) == [["p", "p", "i4"], (6,), (256,), 0, x, y, 300]
    pitched = CudaKernel(
        "k", "rms_norm", "k.cu",
        'extern "C" __global__ void __launch_bounds__(128) norm(const __half *__restrict__ x, size_t x_stride,'
        " const __half *weight, __half *y, long y_stride, unsigned rows, double epsilon)",
        grid="cdiv(n, 128), min(rows, 4)", block=("32", 4), shared="4 * n if n > 8 else 0",
        capabilities=Capabilities(max={"n": 300}, multiple_of={"n": 300}),
    )  # fmt: skip
    x = torch.zeros(2, 3, 320, dtype=torch.float16)[..., :300]
    found = _launched(pitched, monkeypatch, x=x, weight=weight, y=y, eps=0.5)
    assert found == [["p", "i8", "p", "p", "i8", "i4", "d"], (3, 4), (32, 4), 1200, x, 320, weight, y, 300, 6, 0.5]
    assert (pitched.able.strides, pitched.able.dtypes) == ("pitched", ("f16",))
    assert plain.able.strides == "contiguous"


def test_the_server_that_launches_it_is_begun_as_one_for_torch(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is begun before a kernel is built, of which there is no Python yet."""
    begun = list[tuple[Any, ...]]()

    class Server:
        def begin(self) -> None: ...

    def server(*asked: Any) -> Server:
        begun.append(asked)
        return Server()

    monkeypatch.setattr(python_program, "fork_server", server)
    monkeypatch.setattr(cuda.CudaAdapter, "unavailable", lambda *_: None)
    [target] = expand([CudaKernel("k", "softmax", tmp_path / "k.cu", PROTOTYPE)])
    target.adapter.share(target, Builder(cache))
    assert begun == [(python_program.imports_of(FRAMEWORKS["torch"], untrusted=False), False, None)]


_UNCLEAR: tuple[tuple[dict[str, Any], str], ...] = (
    ({"grid": "rowz"}, "grid: 'rowz': 'rowz' is not one of rows, n"),
    ({"grid": "rows +"}, "grid: 'rows +': write numbers and expressions of rows, n, such as "),
    ({"grid": lambda rows: rows}, "grid: <function "),
    ({"grid": "rows / 2"}, "grid: 'rows / 2': write numbers and expressions"),
    ({"grid": "1, 1, 1, 1"}, "grid: '1, 1, 1, 1': write numbers and expressions"),
    ({"block": "open('x')"}, "block: \"open('x')\": "),
    ({"block": "n.real"}, "block: 'n.real': write numbers"),
    ({"shared": "4, 4"}, "shared: '4, 4': write numbers"),
    ({"prototype": "int f(const float *x, float *y, int n)"}, "prototype: f returns int: a kernel is void"),
    ({"prototype": "void f(const float *x, float *y)"}, "prototype: no argument of f is the extent 'n'"),
    ({"flags": "-O3"}, "flags: write a tuple, flags=('-O3',) - mind the comma"),
    ({"file": 3}, "file: 3 is no path"),
)


@pytest.mark.parametrize(("declared", "why"), _UNCLEAR, ids=[why.partition(":")[0] + why[-6:] for _, why in _UNCLEAR])
def test_what_is_unclear_is_one_line(declared: dict[str, Any], why: str) -> None:
    with pytest.raises(DeclarationError) as error:
        CudaKernel(**{"name": "k", "op": "softmax", "file": "k.cu", "prototype": PROTOTYPE, **declared}).check_op()
    assert str(error.value).startswith(why)
    assert "\n" not in str(error.value)


@needs_nvcc
def test_a_file_is_compiled_with_what_it_includes(tmp_path: Path, cache: Path) -> None:
    """Its function is found under the name that C++ gives it, beside one whose name goes on."""
    kernel = cuda_kernel(tmp_path, "#include <math_constants.h>",
                         '#include <math_constants.h>\n#include <cuda_runtime.h>\n#include "more.cuh"\n'
                         "__global__ void softmax_f32_fast(float *x) { x[0] = TWO; }\n"
                         "void host() { softmax_f32_fast<<<1, 1>>>(nullptr); }")  # fmt: skip
    (tmp_path / "more.cuh").write_text("#define TWO 2.0f\n")
    first = CudaBuild(kernel).made(Builder(cache))
    assert first.symbol == "_Z11softmax_f32PKfPfi"
    assert set(functions(first.path)) == {b"_Z11softmax_f32PKfPfi", b"_Z16softmax_f32_fastPf"}
    assert first.compiler.startswith("nvcc 1")
    (tmp_path / "more.cuh").write_text("#define TWO 2.5f\n")
    kernel = cuda_kernel(tmp_path, "#include <math_constants.h>", '#include <math_constants.h>\n#include "more.cuh"')
    assert CudaBuild(kernel).made(Builder(cache)).path != first.path


_UNBUILT = {
    "f23": ("", "", PROTOTYPE.replace("f32", "f23"), "mine.cu: it has no function 'softmax_f23' for the device: did "),
    "two": ("__global__", "__global__ void softmax_f32(double *y) { y[0] = 0; }\n__global__", PROTOTYPE,
            "mine.cu: it has 2 functions 'softmax_f32': declare one extern \"C\""),
    "error": ("y[i] /= total;", "y[i] /= totl;", PROTOTYPE, "it does not compile: {}mine.cu(31): error: identifier"),
}  # fmt: skip


@needs_nvcc
@pytest.mark.some(1)
@pytest.mark.parametrize("fault", _UNBUILT)
def test_what_cannot_be_built_is_one_line(tmp_path: Path, cache: Path, fault: str) -> None:
    old, new, prototype, why = _UNBUILT[fault]
    with pytest.raises(BuildError) as error:
        CudaBuild(cuda_kernel(tmp_path, old, new, prototype=prototype)).made(Builder(cache))
    assert error.value.reason.startswith(why.format(f"{tmp_path}/"))


def test_what_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [target] = expand([cuda_kernel(tmp_path)])
    monkeypatch.setattr(cuda, "no_cuda_device", lambda: "no CUDA device")
    assert target.unavailable() == "no CUDA device"
    monkeypatch.setattr(cuda, "no_cuda_device", lambda: None)
    monkeypatch.setattr(cuda, "bindings", lambda: False)
    assert target.unavailable() == "cuda.bindings is not installed: pip install cuda-bindings"
    monkeypatch.setattr(cuda, "bindings", lambda: True)
    monkeypatch.setattr(toolchain, "program", lambda name, package="": Tool(name, package, None))
    monkeypatch.setattr(cuda, "_nvrtc", lambda: None)
    assert target.unavailable() == "nothing compiles CUDA: nvcc is not on PATH, and NVRTC is not installed"
    monkeypatch.setattr(cuda, "_nvrtc", lambda: "13.0")
    assert target.unavailable() is None


def test_it_is_held_to_what_nvcc_documents(tmp_path: Path) -> None:
    [plain] = expand([cuda_kernel(tmp_path)])
    [fast] = expand([cuda_kernel(tmp_path, flags=("--use_fast_math",))])
    assert plain.contract.accuracy == {"exp": Within(2.5), "exp2": Within(2.5)}  # of its algorithm, too
    assert plain.contract.denormals == "preserve"
    ulp = Within(2.5)
    assert fast.contract.accuracy == {"exp": Within(2.5, growth=0.62), "exp2": ulp, "divide": ulp}
    assert fast.contract.denormals == "flush"


def _device(kernel: CudaKernel) -> Target:
    [target] = expand([kernel])
    if (reason := target.unavailable()) is not None:
        pytest.skip(reason)
    return target


def _case(n: int) -> Case:
    shape = contiguous((2, n))
    return Case("softmax", {"axis": 1}, {"x": Tensor("f32", shape, bytes(8 * n))}, {"y": Output("f32", shape)})


def _outcomes(target: Target, cache: Path, *sizes: int) -> list[Outcome]:
    with WorkerPool([target], cache=cache) as pool:
        found = [each[target.id] for each in pool.submit([_case(n) for n in sizes]).outcomes()]
        status = pool.statuses[target.id]
    assert isinstance(status, PythonAttestation)
    assert status.words.startswith(("compiled by nvcc 1", "compiled by NVRTC 1"))
    return found


@pytest.mark.parametrize("compiler", ["nvcc", "nvrtc"])
def test_cuda_runs_what_was_compiled(
    tmp_path: Path, cache: Path, compiler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if compiler == "nvrtc":
        monkeypatch.setattr(toolchain, "program", lambda name, package="": Tool(name, package, None))
    found = _outcomes(_device(cuda_kernel(tmp_path)), cache, 4, 1000, 0)
    assert [each.status for each in found] == [Status.RAN] * 3
    assert np.frombuffer(found[0].outputs["y"], "<f4").tolist() == [0.25] * 8
    assert np.allclose(np.frombuffer(found[1].outputs["y"], "<f4"), 0.001)


def test_cuda_names_what_strays(tmp_path: Path, cache: Path) -> None:
    old, new = BREAKS["strays"]
    small, large = _outcomes(_device(cuda_kernel(tmp_path, old, new)), cache, 4, 16)
    assert (small.status, small.damage) == (Status.RAN, ())
    assert [(each.tensor, each.kind, each.where) for each in large.damage] == [("y", "gap", "after")]


def test_cuda_goes_on_after_what_loses_the_device(tmp_path: Path, cache: Path) -> None:
    old, new = BREAKS["far"]
    found = _outcomes(_device(cuda_kernel(tmp_path, old, new)), cache, 4, 16, 4)
    assert [each.status for each in found] == [Status.RAN, Status.DIED, Status.RAN]
    assert "illegal memory access" in found[1].detail


def test_cuda_refuses_a_launch_in_one_line(tmp_path: Path, cache: Path) -> None:
    found = _outcomes(_device(cuda_kernel(tmp_path, block="2048 if n > 8 else 256")), cache, 4, 16, 4)
    assert [each.status for each in found] == [Status.RAN, Status.RAISED, Status.RAN]
    assert "softmax_f32 cannot be launched with grid=2, block=2048, shared=0: invalid argument" in found[1].detail
    assert "\n" not in found[1].detail


@pytest.mark.whole
def test_cuda_ends_what_never_returns(tmp_path: Path, cache: Path) -> None:
    old, new = BREAKS["hangs"]
    found = _outcomes(_device(cuda_kernel(tmp_path, old, new)), cache, 4, 16, 4)
    assert [each.status for each in found] == [Status.RAN, Status.HUNG, Status.RAN]


@needs_nvcc
@pytest.mark.whole
def test_cuda_is_exported_as_a_program_that_compiles_it(tmp_path: Path) -> None:
    kernel = cuda_kernel(tmp_path, "#include <math_constants.h>", '#include <math_constants.h>\n#include "more.cuh"')
    (tmp_path / "more.cuh").write_text("#define MORE\n")
    [target] = expand([kernel])
    text = target.adapter.export(target, Script((_case(4),)), ["about"], "repro.py")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "repro.py").write_text(text)
    assert "from fuzz" not in text
    done = subprocess.run(
        [sys.executable, "repro.py"], cwd=tmp_path / "elsewhere", capture_output=True, text=True, check=False
    )
    if target.unavailable() is None:
        assert (done.returncode, done.stdout) == (0, "passed\n"), done.stderr
    else:
        assert "FAILS: raised AssertionError: Torch not compiled with CUDA" in done.stdout, done.stderr
