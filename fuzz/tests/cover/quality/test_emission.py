"""The contracts that calibration meets, and the kernels in C that it writes for them."""

from __future__ import annotations

import ctypes
import math
import re
import subprocess
from itertools import combinations, product
from pathlib import Path
from typing import Any as Anything

import numpy as np
import pytest

from fuzz.core.adapters import abi
from fuzz.core.base.dtypes import from_bits
from fuzz.quality.calibrate.contracts import contracts, fields
from fuzz.quality.emission.places import applied, definition
from fuzz.quality.emission.plan import Emission
from fuzz.quality.emission.prelude import HEAD, HELD, PLAIN
from fuzz.quality.emission.variant import source
from oracles.dtypes import FORMATS
from oracles.formula.contract import Contract
from oracles.op import Op
from oracles.ops import OPS
from oracles.rounding import round_to
from oracles.summation import AnyOrder, Lanes, Pairwise, Sequential, Summation
from oracles.tests.common.dims import GEMM
from oracles.tests.common.elementary import FUNCTIONS, arguments
from oracles.tests.common.integers import GATHERED
from oracles.tests.common.ops import LAYER_NORM
from oracles.tests.common.recurrences import DECAYED


@pytest.mark.parametrize("op", [LAYER_NORM, OPS["rms_norm"]], ids=lambda op: op.name)
def test_any_two_values_of_two_fields_meet_in_a_contract(op: Op) -> None:
    every, values = contracts(op), fields(op)
    assert {"compute", "sums", "accuracy", "mean", "fused", "denormals", "nonfinite", "saturate", "zeros"} <= {*values}
    assert {"dtypes", "algorithm" if op is LAYER_NORM else "points"} <= {*values}
    for a, b in combinations(values, 2):
        met = {(str(getattr(each, a)), str(getattr(each, b))) for each in every}
        assert met == {(str(one), str(two)) for one in values[a] for two in values[b]}, (a, b)
    assert len(every) < 60


@pytest.mark.parametrize(
    ("contract", "fused", "words"),
    [
        (Contract(), False, "sum_sequential_f32(terms_f32, n_n)"),
        (Contract(), True, "fmaf(a[k], b[k], sum)"),
        (Contract(fused=False), True, "sum_sequential_f32(terms_f32, n_n)"),
        (Contract("bf16"), True, "round_bf16(load_bf16(&call->x, r * n_n + at_n) * "),
        (Contract("f64"), True, "fma(a[k], b[k], sum)"),
        (Contract(sums={"n": Lanes(8, 2, "scalar")}), False, "f32 part[16] = {0};"),
        (Contract(sums={"n": Pairwise(4)}), False, "part[k / 4]"),
        (Contract(sums={"n": AnyOrder()}), False, "for (int64_t k = n - 1; k >= 0; k--)"),
        (Contract(mean="reciprocal"), False, "sum_1s[r] * (1 / (f32)(f64)n_n)"),
        (Contract(points={"h": "bf16"}), False, "const bf16 point_"),
        (Contract(denormals="flush"), False, "__builtin_ia32_ldmxcsr(before | 0x8040);"),
        (Contract(saturate=True), False, "isinf(value) ? "),
        (Contract(dtypes={"rstd": "f64"}), False, "const f64 rstd_6 = 1 / sqrt_f64((f64)add_5)"),
    ],
)
def test_what_a_contract_says_stands_in_the_kernel(contract: Contract, fused: bool, words: str) -> None:
    assert words in source(Emission(OPS["rms_norm"], contract.settled({"x": "f32"}), fused=fused))


def test_each_tensor_lies_in_memory_as_its_own_dimensions_say() -> None:
    """The output of this product is transposed, and a dimension is measured where an input has it."""
    text = source(Emission(GEMM, Contract("f32")))
    for words in (
        "const int64_t n_n = call->b.shape[call->b.rank - 1];",
        "dot_0s[at_m * n_n + at_n] = sum_sequential_f32(terms_f32, n_k);",
        "load_f32(&call->a, at_m * n_k + at_k) * load_f32(&call->b, at_k * n_n + at_n)",
        "store_f32(&call->c, at_n * n_m + at_m, ",
    ):
        assert words in text, words


@pytest.mark.parametrize("compute", ["f32", "f64"])
def test_what_is_only_moved_is_converted_where_the_contract_says_so(compute: str) -> None:
    """A double holds it in each kernel that takes inputs in f64; of others that is no rounding, and flushes nothing."""
    text = source(Emission(GATHERED, Contract(compute), wide=True))
    assert ("store_kept(&call->y" in text, "store_f64(&call->y" in text) == (compute == "f32", compute == "f64")


@pytest.mark.parametrize(
    ("order", "turn", "words"),
    [
        (Sequential(), 1, "start = fmaf(a[k], start, h[k]);"),
        (AnyOrder(), 0, "start = fmaf(a[k], start, h[k]);"),
        (AnyOrder(), 1, "joined_scan_any1_f32(a, h, first - 1, k);"),
        (AnyOrder(), 2, "joined_scan_any2_f32(a, h, k - apart, k);"),
    ],
)
def test_a_recurrence_is_what_a_loop_makes_of_it_in_every_order(
    order: Summation, turn: int, words: str, tmp_path: Path
) -> None:
    """Small whole numbers are tried, as nothing of them is rounded."""
    emission = Emission(DECAYED, Contract("f32", sums={"t": order}), fused=True, turn=turn)
    text = source(emission)
    assert words in text
    called = re.search(r"^static void (scan_\w+)", text, re.MULTILINE)
    assert called is not None
    (tmp_path / "all.c").write_text(f"{text}\nvoid (*const it)(float *, float *, float, int64_t) = {called[1]};\n")
    (tmp_path / "kernelfuzz.h").write_text(abi.header([DECAYED]))
    command = ["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC"]
    command += ["-o", "all.so", "all.c", "-lm"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stderr == ""
    of = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_float, ctypes.c_int64)
    scan, random = of.in_dll(ctypes.CDLL(str(tmp_path / "all.so")), "it"), np.random.default_rng(0)
    for n in (0, 1, 7, 8, 9, 16, 23, 40):
        a, b = (random.integers(-1, 3, n).astype(np.float32) for _ in range(2))
        a[3::4] = 0.0  # else they grow beyond 24 bits
        h, wanted, got = 5.0, list[float](), b.copy()
        for factor, more in zip(a, b, strict=True):
            h = float(factor) * h + float(more)
            wanted.append(h)
        scan(a.ctypes.data, got.ctypes.data, 5.0, n)
        assert got.tolist() == wanted


_MOVED = """
void moved(const f64 *x, f32 *y, f32 *upper, f32 *half, int n) {
#ifdef __SSE2__
    const unsigned before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(before | 0x8000);
#endif
    for (int i = 0; i < n; i++) {
        y[i] = kept_f32(x[i]);
        upper[i] = kept_bf16(x[i]);
        half[i] = kept_f16(x[i]);
    }
#ifdef __SSE2__
    __builtin_ia32_ldmxcsr(before);
#endif
}
"""


def test_what_float_holds_is_kept_by_a_processor_that_flushes(tmp_path: Path) -> None:
    (tmp_path / "all.c").write_text("".join([PLAIN, HEAD, _MOVED]))
    (tmp_path / "kernelfuzz.h").write_text(abi.header([]))
    command = ["gcc", "-std=gnu11", "-O1", "-shared", "-fPIC", "-o", "all.so", "all.c", "-lm"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stderr == ""
    x = np.array([0.0, -0.0, 2.0**-149, -3 * 2.0**-149, 2.0**-128, 2.0**-126, 2.0**-24, 1.5, 1 / 3, np.inf])
    found = np.full((3, len(x)), 7, np.float32)
    library = ctypes.CDLL(str(tmp_path / "all.so"))
    library.moved(*(ctypes.c_void_p(each.ctypes.data) for each in (x, *found)), len(x))
    for of, got in zip(("f32", "bf16", "f16"), found, strict=True):
        wanted = round_to(x, FORMATS[of]).astype(np.float32)
        kept = wanted.astype(np.float64) == x  # others are rounded, and flushed
        assert (got.view(np.uint32) == wanted.view(np.uint32))[kept].all(), of
        assert (np.signbit(got) == np.signbit(x)).all(), of


def test_every_number_of_a_narrow_dtype_is_loaded_and_stored_by_its_bits(tmp_path: Path) -> None:
    """With calls of the C library for each of them, 4 million elements of f16 took 5 s without optimisation."""
    assert not re.search(r"(ldexp|frexp)f?\(", HEAD)
    names = [each for each in HELD if FORMATS[each].emin != FORMATS["f32"].emin]
    texts = [PLAIN, HEAD]
    for name in names:
        tensor = f"const kf_tensor in = {{bits, KF_{name.upper()}, 1, {{n}}, {{1}}}}, out = {{again, in.dtype}};"
        texts.append(f"void of_{name}(void *bits, f32 *y, void *again, int n) {{ {tensor}")
        texts.append("for (int i = 0; i < n; i++) store_f32(&out, i, y[i] = load_f32(&in, i)); }")
    (tmp_path / "all.c").write_text("\n".join(texts))
    (tmp_path / "kernelfuzz.h").write_text(abi.header([]))
    command = ["gcc", "-std=gnu11", "-O0", "-shared", "-fPIC", "-o", "all.so", "all.c", "-lm"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stderr == ""
    library = ctypes.CDLL(str(tmp_path / "all.so"))
    for name in names:
        size = 8 * FORMATS[name].itemsize
        bits = np.arange(2**size).astype(f"u{size // 8}")
        y, again = np.empty(len(bits), np.float32), np.zeros_like(bits)
        library[f"of_{name}"](*(ctypes.c_void_p(each.ctypes.data) for each in (bits, y, again)), len(bits))
        is_number = ~np.isnan(y)
        np.testing.assert_array_equal(y, from_bits(bits.tobytes(), name, bits.shape).astype(np.float32))
        np.testing.assert_array_equal(again[is_number], bits[is_number])


def test_every_elementary_function_has_its_values_in_c(tmp_path: Path) -> None:
    """In both dtypes, as accurate as the C library is: within a loose contract."""
    texts = ["#include <tgmath.h>", "#define COMMON", "typedef float f32;", "typedef double f64;"]
    dtypes: dict[str, np.dtype[Anything]] = {"f32": np.dtype(np.float32), "f64": np.dtype(np.float64)}
    texts += dict.fromkeys(definition(of.name, dtype) for of, dtype in product(FUNCTIONS.values(), dtypes))
    for place, (of, dtype) in enumerate(product(FUNCTIONS.values(), dtypes)):
        call = applied(of.name, dtype, "x[i]", of.constant)
        texts.append(f"void of_{place}({dtype} *x, int n) {{ for (int i = 0; i < n; i++) x[i] = {call}; }}")
    (tmp_path / "all.c").write_text("\n".join(texts))
    command = ["gcc", "-std=gnu11", "-O1", "-shared", "-fPIC", "-o", "all.so", "all.c", "-lm"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stderr == ""
    library = ctypes.CDLL(str(tmp_path / "all.so"))
    for place, (of, dtype) in enumerate(product(FUNCTIONS.values(), dtypes)):
        with np.errstate(all="ignore"):
            x = np.append(arguments(of, 40, 2), [math.inf]).astype(dtypes[dtype])
            x = x[np.isinf(x) | (np.abs(x) < 1e30)]
            y = of.float64.value(x.astype(np.float64)).astype(dtypes[dtype]).astype(np.float64)
            got = x.copy()
            library[f"of_{place}"](got.ctypes.data_as(ctypes.c_void_p), len(got))
            off = np.abs(got.astype(np.float64) - y)
            most = np.abs(y) * (of.loose * 4 + 2) * np.finfo(x.dtype).eps + np.finfo(x.dtype).tiny
        assert ((off <= most) | (got == y) | (np.isnan(got) & np.isnan(y))).all(), (of.name, dtype, x[~(off <= most)])
