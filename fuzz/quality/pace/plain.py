"""The plain way to test a kernel, as many would write it in an afternoon: Hypothesis draws the array, a process of its
own runs the kernel on it, and mpmath says of each element what it should be."""

from __future__ import annotations

import math
import os
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fuzz.adapters import abi
from fuzz.adapters.build import BuildError, edited_source
from fuzz.adapters.c import prefix_of
from fuzz.adapters.c_build import compiler_of
from fuzz.adapters.target import Target
from fuzz.quality.pace import Plain
from oracles.ops import OPS

_PROGRAM = Path(__file__).with_name("plain.c")
_MAX_ROWS = 8
_MAX_EXAMPLES = 1 << 20
_TOLERANCE = 8 * 2.0**-24
"""The share of the value, times sqrt(n), that is allowed: several units in the last place for each of the steps of a
short row, and what rounding errors of random sign add up to for a long one."""
EPS = float(np.float32(1e-6))

Array = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


class _Over(BaseException):
    """The time is over. Not an Exception, which Hypothesis would take for a failing test."""


@dataclass(frozen=True)
class PlainProgram:
    """The kernel's own source in a program for one case."""

    command: tuple[str, ...]

    def run(self, x: Array, eps: float) -> Array:
        """y, from a process that is started for it."""
        sent = struct.pack("=qqf", *x.shape, eps) + x.tobytes()
        answer = subprocess.run(self.command, input=sent, capture_output=True, check=True)
        return np.frombuffer(answer.stdout, np.float32).reshape(x.shape)


@contextmanager
def built(target: Target) -> Iterator[PlainProgram]:
    """The program, built as the target says. Raises BuildError."""
    kernel = target.kernel
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder) / kernel.source.name, Path(folder) / "plain"
        source.write_text(edited_source(kernel), encoding="utf-8")
        (Path(folder) / abi.HEADER).write_text(abi.header([OPS[kernel.op]]), encoding="utf-8")
        command = [
            *compiler_of(target).command, "-std=gnu11", *target.flags, "-iquote", str(kernel.source.parent),
            f"-I{folder}", str(source), str(_PROGRAM), *(["-static"] if target.emulated else []), "-lm",
            "-o", str(output),
        ]  # fmt: skip
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode:
            raise BuildError(f"{target.id}: compiler failed:\n{answer.stderr}")
        yield PlainProgram((*prefix_of(target), str(output)))


def judged(x: Array, y: Array, eps: float) -> bool:
    """Whether every element is what it should be, within the tolerance."""
    return all(_conforms(row, got, eps) for row, got in zip(x, y, strict=True))


def _conforms(row: Sequence[Any], got: Sequence[Any], eps: float) -> bool:
    values = [mpmath.mpf(float(value)) for value in row]
    rstd = 1 / mpmath.sqrt(mpmath.fsum(value * value for value in values) / len(values) + eps)
    allowed = _TOLERANCE * math.sqrt(len(values))
    return all(
        abs(mpmath.mpf(float(y)) - value * rstd) <= allowed * abs(value * rstd) + 2.0**-149
        for value, y in zip(values, got, strict=True)
    )


def measure(target: Target, max_n: int, seconds: float, seed: int) -> Plain:
    """Test the target in the plain way for so long."""
    clock = _Clock(seconds)
    runs = failures = 0
    shapes = st.tuples(st.integers(1, _MAX_ROWS), st.integers(1, max_n))
    # Of ordinary size: what overflow does is beyond what a tolerance like this can say.
    elements = st.floats(-1e3, 1e3, width=32, allow_subnormal=False)

    def one_case(x: Array) -> None:
        nonlocal runs, failures
        right = judged(x, program.run(x, EPS), EPS)
        if clock.runs():
            runs, failures = runs + 1, failures + (not right)

    with built(target) as program:
        quiet = settings(
            max_examples=_MAX_EXAMPLES, database=None, deadline=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        with suppress(_Over):
            seeded(seed)(quiet(given(arrays(np.float32, shapes, elements=elements))(one_case)))()
    return Plain(target.id, runs, failures, *clock.spent)


class _Clock:
    """Starts once the first cases are through: what they import and build is of no other case."""

    _WARMING = 3

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._cases = 0
        self._began = (0.0, 0.0)
        self.spent = (0.0, 0.0)
        """On the wall, and of processors."""

    def runs(self) -> bool:
        """Asked after each case: whether it counts. Raises _Over after the last one that does."""
        self._cases += 1
        if self._cases <= self._WARMING:
            self._began = (time.perf_counter(), _cpu())
            return False
        if self.spent[0] >= self._seconds:
            raise _Over
        self.spent = (time.perf_counter() - self._began[0], _cpu() - self._began[1])
        return True


def _cpu() -> float:
    """Return the CPU seconds of this process and of the children that ended."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system
