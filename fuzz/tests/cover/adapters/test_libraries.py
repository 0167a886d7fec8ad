"""The library that makes an emulator faster changes no value, and no kernel sees it."""

from __future__ import annotations

import ctypes
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.core.adapters.build import Builder
from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.adapters.isa import QEMU
from fuzz.core.adapters.toolchain import Host, emulator_helper, this_host
from fuzz.core.base.outcome import Status
from fuzz.core.execute.pool import WorkerPool
from fuzz.tests.common.planted import HEAD, a_case, c_program, c_target

DOUBLES = st.tuples(*[st.floats(allow_nan=False)] * 3)
WIDE = Host("x86_64", frozenset({"avx"}))


@pytest.fixture(scope="module")
def helper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built for a processor that has AVX, whether or not this one does."""
    return Path(emulator_helper(Builder(tmp_path_factory.mktemp("cache")), WIDE))


def test_only_processors_that_have_avx_are_given_it(tmp_path: Path) -> None:
    builder = Builder(tmp_path)
    assert emulator_helper(builder, Host("x86_64", frozenset({"sse2"}))) == ""
    assert emulator_helper(builder, Host("aarch64", frozenset({"neon"}))) == ""
    assert emulator_helper(builder, WIDE).endswith(".so")


@given(DOUBLES)
def test_its_values_are_those_of_the_c_library(helper: Path, numbers: tuple[float, float, float]) -> None:
    if "avx" not in this_host().features:
        assert helper.is_file()  # its code cannot run here, and is not given to anything
        return
    for name, kind in (("fma", ctypes.c_double), ("fmaf", ctypes.c_float)):
        found, own = getattr(ctypes.CDLL(str(helper)), name), getattr(ctypes.CDLL("libm.so.6"), name)
        for function in (found, own):
            function.restype, function.argtypes = kind, [kind] * 3
        got, expected = found(*numbers), own(*numbers)
        assert (got, math.copysign(1, got)) == (expected, math.copysign(1, expected)) or got != got != expected


def test_an_emulator_has_it_and_the_kernel_does_not_see_it(tmp_path: Path, cache: Path) -> None:
    source = tmp_path / "kernel.c"
    source.write_text(f'{HEAD} if (getenv("LD_PRELOAD") != NULL) return KF_REJECTED;\n copy(c); return KF_OK; }}\n')
    kernel = CKernel("looks", "rms_norm", source, isa="neon")
    target = c_target(kernel, QEMU.site) if this_host().arch == "x86_64" else c_target(kernel, "native")
    program = c_program(target, Builder(cache))
    with WorkerPool([target], cache=cache) as pool:
        [outcomes] = pool.submit([a_case()]).outcomes()
        environment = Path(f"/proc/{pool.pids[target.id]}/environ").read_bytes().split(b"\0")
    assert outcomes[target.id].status is Status.RAN
    given = f"LD_PRELOAD={program.helper}".encode()
    assert (given in environment) == bool(program.helper) == ("avx" in this_host().features)
