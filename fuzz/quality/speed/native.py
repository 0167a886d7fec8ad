"""C kernels of rms_norm, timed on one core: on rows that are near, on rows that are far, and beside a loop that only
loads and stores."""

from __future__ import annotations

import ctypes
import os
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fuzz.adapters import abi
from fuzz.adapters.build import BuildError
from fuzz.adapters.c_build import compiler_of
from fuzz.adapters.c_kernel import CKernel
from fuzz.adapters.isa import ISAS
from fuzz.adapters.target import Target
from fuzz.base.capability import MAX_RANK
from fuzz.quality.speed import EPS
from fuzz.transport.records import DTYPES
from oracles.ops import OPS

_LOOP, _LIMIT = (Path(__file__).with_name(name) for name in ("loop.c", "limit.c"))
LENGTHS = (64, 128, 256, 512, 1024, 4096, 16384)
_VECTOR_BYTES = {"avx512": 64, "avx2": 32}
"""The vectors of the instruction sets whose vectors are wider than those that every processor has, the widest first."""
_BASELINE_BYTES = 16
_NEAR = 128 << 10
"""Bytes of the rows that are called again and again, x and y together, or a single row: some times what is nearest to a
core, and no more than a part of what is next, so that many rows share what a call costs."""
_FAR = 64 << 20
"""This many bytes of inputs are gone through before one is used again: more than the caches nearest to a core hold."""
_FAR_ROWS = 16
"""The least number of rows of one call on rows that are far."""
_HOT_ROUNDS, _COLD_ROUNDS = 31, 7
_SAMPLE_S = 100e-6
"""A hot sample takes about this long: a thousand times the resolution of the clock, and less than a share of a
processor that others use too."""
_LINE, _APART = 64, 2112
"""Tensors begin on a line of the caches. y begins so many bytes behind x that no load has the lowest 12 bits of the
address of a store right before it, by which processors take the one to depend on the other."""

Array = np.ndarray[tuple[int, ...], np.dtype[np.float32]]
Function = Callable[..., float]
"""kf_seconds of loop.c: calls, count, repeats."""


@dataclass(frozen=True)
class RowTimes:
    """Seconds that a kernel takes for a row of `n`; medians of many calls, NaN where it takes no such rows."""

    who: str
    n: int
    hot: float
    """The same rows again and again, which stay in the caches nearest to the core."""
    limit: float
    """What a loop that only loads and stores takes for these, in vectors of the same width."""
    of_limit: float
    """limit/hot, the median of rounds in which one was measured right after the other."""
    cold: float
    """Every call on rows that many others came between."""


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
        ("weight_offset", ctypes.c_float),
    )


def time_native(targets: Sequence[Target], lengths: Sequence[int] = LENGTHS) -> Iterator[RowTimes]:
    """Each target at each length, in turns, so that all see the same state of the machine. Raises BuildError."""
    with tempfile.TemporaryDirectory() as folder, _one_core():
        kernels, limits = {}, {}
        for number, target in enumerate(targets):
            kernels[target.id] = _function(target, target.kernel.source, Path(folder) / f"{number}.so")
            limits[target.id] = limit_of(target, Path(folder) / f"limit-{number}.so")
        for n in lengths:
            hot, cold = _hot(kernels, limits, n), _cold(kernels, n)
            for who in kernels:
                yield RowTimes(who, n, *hot[who], cold[who])


def _hot(
    kernels: Mapping[str, Function], limits: Mapping[str, Function], n: int
) -> dict[str, tuple[float, float, float]]:
    """Return the seconds of each kernel, those of its limit, and the ratio."""
    rows = max(1, _NEAR // (2 * 4 * n))
    (x,), (y,) = _tensors(1, rows, n)
    call = call_on(x, y)
    samples: dict[str, list[tuple[float, float]]] = {who: [] for who in kernels}
    for who, function in kernels.items():
        repeats = [max(1, int(_SAMPLE_S / max(each(call, 1, 3) / 3, 1e-9))) for each in (function, limits[who])]
        for _ in range(_HOT_ROUNDS):
            pair = zip((function, limits[who]), repeats, strict=True)
            mine, limit = (each(call, 1, count) / count / rows for each, count in pair)
            samples[who].append((mine, limit))
    return {who: _medians(found) for who, found in samples.items()}


def _medians(samples: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    if min(mine for mine, _ in samples) <= 0:
        return float("nan"), float("nan"), float("nan")
    mine, limit, ratio = zip(*((mine, limit, limit / mine) for mine, limit in samples), strict=True)
    return statistics.median(mine), statistics.median(limit), statistics.median(ratio)


def _cold(kernels: Mapping[str, Function], n: int) -> dict[str, float]:
    rows = max(_FAR_ROWS, _NEAR // (2 * 4 * n))
    count = max(2, _FAR // (4 * rows * n))
    x, y = _tensors(count, rows, n)
    calls = (_Call * count)(*(_call(x[i], y[i]) for i in range(count)))
    seconds: dict[str, list[float]] = {who: [] for who in kernels}
    for _ in range(_COLD_ROUNDS):
        for who, function in kernels.items():
            seconds[who].append(function(calls, count, 1) / count / rows)
    return {who: statistics.median(found) if min(found) > 0 else float("nan") for who, found in seconds.items()}


def _tensors(count: int, rows: int, n: int) -> tuple[Array, Array]:
    """Return `count` arrays of values for x, and as many places for y."""
    size = 4 * count * rows * n
    memory = np.zeros(2 * size + _APART + _LINE, np.uint8)
    start = -memory.ctypes.data % _LINE
    places = (start, start + size + _APART)
    x, y = (memory[place : place + size].view(np.float32).reshape(count, rows, n) for place in places)
    x[...] = np.random.default_rng(n).standard_normal((count, rows, n), np.float32)
    return x, y


def limit_of(target: Target, output: Path) -> Function:
    """The loop that only loads and stores, in vectors as wide as the target's."""
    return _function(target, _LIMIT, output, f"-DVECTOR_BYTES={vector_bytes(target)}")


def vector_bytes(target: Target) -> int:
    """The width of the vectors that a kernel may use where it runs."""
    assert isinstance(target.kernel, CKernel)
    assert target.host is not None
    for isa, width in _VECTOR_BYTES.items():
        if target.kernel.isa == isa or (target.kernel.isa == "runtime" and ISAS[isa].features <= target.host.features):
            return width
    return _BASELINE_BYTES


def _function(target: Target, source: Path, output: Path, *defined: str) -> Function:
    """The timed loop around what `source` defines, compiled as the target says."""
    header = output.with_name(abi.HEADER)
    header.write_text(abi.header([OPS[target.kernel.op]]), encoding="utf-8")
    command = [
        *compiler_of(target).command, "-std=gnu11", "-shared", "-fPIC", *target.flags, *defined, "-iquote",
        str(source.parent), f"-I{header.parent}", str(source), str(_LOOP), "-lm", "-o", str(output),
    ]  # fmt: skip
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise BuildError(f"{target.id}: compiler failed:\n{answer.stderr}")
    function = ctypes.CDLL(str(output)).kf_seconds
    function.restype = ctypes.c_double
    return function


def call_on(x: Array, y: Array) -> ctypes.Array[_Call]:
    """One call, as `kf_seconds` takes it."""
    return (_Call * 1)(_call(x, y))


def _call(x: Array, y: Array) -> _Call:
    return _Call(x=_tensor(x), y=_tensor(y), axis=1, eps=EPS)


def _tensor(array: Array) -> _Tensor:
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
