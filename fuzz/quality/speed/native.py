"""C kernels of rms_norm, timed on one core."""

from __future__ import annotations

import ctypes
import os
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from fuzz.adapters.build import NATIVE, BuildError
from fuzz.adapters.c import compiler_of
from fuzz.adapters.target import Target
from fuzz.base.capability import MAX_RANK
from fuzz.quality.speed import EPS, Shape, Timing
from fuzz.transport.records import DTYPES

_LOOP = Path(__file__).with_name("loop.c")
LENGTHS = (1024, 2048, 4096)
ROWS = 16
"""The number of rows of one call."""
_WORKING_SET = 64 << 20
"""This many bytes of inputs are gone through before one is used again: more than the caches nearest to a core hold."""
_ROUNDS = 7


class _Tensor(ctypes.Structure):
    """kf_tensor of kernelfuzz.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int),
        ("rank", ctypes.c_int),
        ("shape", ctypes.c_int64 * MAX_RANK),
        ("strides", ctypes.c_int64 * MAX_RANK),
    )


class _Call(ctypes.Structure):
    """kf_rms_norm_call of kernelfuzz.h."""

    _fields_ = (
        ("x", _Tensor),
        ("weight", _Tensor),
        ("y", _Tensor),
        ("rstd", _Tensor),
        ("axis", ctypes.c_int),
        ("eps", ctypes.c_float),
        ("offset", ctypes.c_float),
    )


def time_native(targets: Sequence[Target], lengths: Sequence[int] = LENGTHS) -> Iterator[Timing]:
    """Each target at each length, in turns, so that all see the same state of the machine. Raises BuildError."""
    with tempfile.TemporaryDirectory() as folder, _one_core():
        functions = {
            target.id: _function(target, Path(folder) / f"{number}.so") for number, target in enumerate(targets)
        }
        for n in lengths:
            shape = Shape("rms_norm", "f32", ROWS, n)
            count = max(2, _WORKING_SET // shape.tensor_bytes)
            x = np.random.default_rng(n).standard_normal((count, ROWS, n), np.float32)
            y = np.empty_like(x)
            calls = (_Call * count)(*(_call(x[i], y[i]) for i in range(count)))
            seconds: dict[str, list[float]] = {name: [] for name in functions}
            for _ in range(_ROUNDS):
                for name, function in functions.items():
                    seconds[name].append(function(calls, count) / count)
            for name, found in seconds.items():
                yield Timing(shape, name, statistics.median(found) if min(found) > 0 else float("nan"))


def _function(target: Target, output: Path) -> ctypes._NamedFuncPointer:
    """The timed loop around the kernel, compiled as the target says."""
    kernel = target.kernel
    command = [
        *compiler_of(target).command, "-std=gnu11", "-shared", "-fPIC", *target.flags, "-iquote",
        str(kernel.source.parent), f"-I{NATIVE}", str(kernel.source), str(_LOOP), "-lm", "-o", str(output),
    ]  # fmt: skip
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise BuildError(f"{target.id}: compiler failed:\n{answer.stderr}")
    function = ctypes.CDLL(str(output)).kf_seconds
    function.restype = ctypes.c_double
    return function


def _call(
    x: np.ndarray[tuple[int, ...], np.dtype[np.float32]], y: np.ndarray[tuple[int, ...], np.dtype[np.float32]]
) -> _Call:
    return _Call(x=_tensor(x), y=_tensor(y), axis=1, eps=EPS)


def _tensor(array: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> _Tensor:
    tensor = _Tensor(data=array.ctypes.data, dtype=DTYPES["f32"], rank=array.ndim)
    for axis, (extent, stride) in enumerate(zip(array.shape, array.strides, strict=True)):
        tensor.shape[axis], tensor.strides[axis] = extent, stride // array.itemsize
    return tensor


@contextmanager
def _one_core() -> Iterator[None]:
    """This process stays on one core meanwhile."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
