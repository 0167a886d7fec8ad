"""What nobody has set before a call: registers, the stack below and new memory hold what the case asks for."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from fuzz.core.adapters.registry import expand
from fuzz.core.base.case import Case, CaseError, Output, Tensor, contiguous
from fuzz.core.base.dtypes import from_bits
from fuzz.core.base.fill import FILL, FILLS, HUGE, NAN, ORDINARY, UNSET, ZERO, fill_of, filled, refilled
from fuzz.core.base.outcome import Unwritten
from fuzz.core.base.validity import check_case
from fuzz.core.transport.python import shared_memory
from fuzz.core.transport.python.unset import fill_on_gpu
from fuzz.extras.cuda import functions
from fuzz.tests.common.forms import pack, softmax
from fuzz.tests.common.planted import Run, a_case
from fuzz.tests.common.python_planted import outcomes, python_target
from fuzz.tests.conftest import Cli

_BEFORE = "#include <sys/auxv.h>\n"
_SHOWS = r"""
    uint32_t vector, mask[16], number;
    volatile uint32_t dead[256];
#ifdef __x86_64__
    __asm__ volatile("movl %%r10d, %2\n movss %%xmm9, %0\n movss %%xmm14, %1" : "=m"(vector), "=m"(mask), "=m"(number));
    if (__builtin_cpu_supports("avx512bw"))
        __asm__ volatile("vextractf32x4 $3, %%zmm30, %%xmm0\n movss %%xmm0, %0\n kmovq %%k3, %%r10\n movl %%r10d, %1"
                         : "=m"(vector), "=m"(mask) : : "xmm0", "r10");
#else
    __asm__ volatile("str w12, %2\n str s30, %0\n str s31, %1" : "=m"(vector), "=m"(mask), "=m"(number));
    if (getauxval(AT_HWCAP) & 1 << 22)
        __asm__ volatile(".arch_extension sve\n str p5, [%1]\n ptrue p0.s\n lastb s0, p0, z30.s\n str s0, %0"
                         : "=m"(vector) : "r"(mask) : "v0", "memory");
#endif
    uint32_t *volatile made = malloc(64);
    const uint32_t shown[] = {vector, mask[0], number, dead[3], made[5]};
    for (int i = 0; i < 5; i++) ((uint32_t *)c->y.data)[i] = shown[i];
    free(made);
"""


def test_it_is_what_the_case_asks_for_everywhere_or_0_in_a_part(run: Run) -> None:
    parts: list[tuple[str, ...]] = [(), *((each,) for each in UNSET)]
    asked = [(kind, without) for kind in range(len(FILLS)) for without in parts]
    shown = run(_SHOWS, *(filled(a_case(), *each) for each in asked), before=_BEFORE)
    for each, outcome in zip(asked, shown, strict=True):
        kind, without = each
        word = [*FILLS.values()][kind] * 0x10001
        registers, stack, heap, _ = (0 if part in without else word for part in UNSET)
        found = np.frombuffer(outcome.outputs["y"], "<u4")[:5].tolist()
        assert found == [registers] * 3 + [stack, heap], (kind, without)


_LIBRARY = """
#include <stdlib.h>
void softmax_f32(const float *x, float *y, int n) {
    float *volatile made = malloc(64), *volatile cleared = calloc(16, 4), *volatile aligned = aligned_alloc(64, 64);
    void *volatile placed = NULL;
    const int failed = posix_memalign((void **)&placed, 64, 64);
    y[0] = made[5], y[1] = aligned[5], y[2] = failed ? x[0] : ((float *)placed)[5], y[3] = cleared[5];
    made[0] = 7;
    made = realloc(made, 4096);
    y[4] = made[0], y[5] = made[1000];
    free(made), free(cleared), free(aligned), free(placed);
}
"""


@pytest.mark.some(1)
@pytest.mark.parametrize(("prefix", "isa"), [("", "runtime"), ("aarch64-linux-gnu-", "neon")])
def test_a_library_that_was_linked_before_is_given_memory_that_is_filled(
    tmp_path: Path, cache: Path, prefix: str, isa: str
) -> None:
    (tmp_path / "heap.c").write_text(_LIBRARY)
    words = [f"{prefix}gcc", "-O1", "-shared", "-fPIC", "heap.c", "-o", "libheap.so"]
    subprocess.run(words, cwd=tmp_path, check=True)
    row = contiguous((1, 6))
    case = Case("softmax", {"axis": 1}, {"x": Tensor("f32", row, bytes(24))}, {"y": Output("f32", row)})
    target = expand([replace(softmax(tmp_path / "libheap.so"), isa=isa)])[0]
    for word, outcome in zip(
        FILLS.values(), outcomes(target, cache, *(filled(case, kind) for kind in range(len(FILLS)))), strict=True
    ):
        fresh, kept = word * 0x10001, int(np.float32(7).view("<u4"))
        assert np.frombuffer(outcome.outputs["y"], "<u4").tolist() == [fresh, fresh, fresh, 0, kept, fresh]


_SUMS = """
#include <stdlib.h>
#include <string.h>
float sum_f32(const float *x, int n) {{
    float *volatile sums = {};
    for (int i = 0; i < n; i++) sums[i % 4] += x[i];
    const float sum = sums[0] + sums[1] + sums[2] + sums[3];
    free(sums);
    return sum;
}}
"""
_CLEARED = ("memset(malloc(16), 0, 16)", "calloc(4, 4)", "memset(realloc(malloc(4), 16), 0, 16)")


@pytest.mark.whole
@pytest.mark.parametrize("sums", ["malloc(16)", *_CLEARED])
def test_what_a_library_never_cleared_is_found_within_20_cases(tmp_path: Path, cli: Cli, sums: str) -> None:
    (tmp_path / "sum.c").write_text(_SUMS.format(sums))
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "sum.c", "-o", "libsum.so"], cwd=tmp_path, check=True)
    declared = 'SharedKernel("sum", "row_sum", "libsum.so", "float sum_f32(const float *x, int n)"),'
    pack(tmp_path, declared)
    found = cli("run", "--pack", str(tmp_path), "--max-cases", "20", "--seed", "1", "--no-shrink")
    assert found.returncode == (0 if sums in _CLEARED else 1), found.stdout


def test_each_kind_is_what_its_name_says_in_each_wide_dtype() -> None:
    for dtype in ("f16", "bf16", "f32", "f64"):
        zero, nan, huge, negative, near = (
            float(from_bits(word.to_bytes(2, "little") * 4, dtype, (-1,))[0]) for word in FILLS.values()
        )
        assert np.isnan(nan)
        assert zero == 0
        assert huge > 6e4 > 2 > near > 0 > -6e4 > negative


def test_it_is_drawn_by_the_values_and_the_same_case_again_has_another() -> None:
    cases = [_of(float(value)) for value in range(64)]
    drawn = {fill_of(case) for case in cases}
    assert drawn == {*range(len(FILLS))} - {ZERO}
    for case in cases:
        assert fill_of(case) == fill_of(replace(case)) != fill_of(refilled(case))
        check_case(refilled(case))
    for kind, other in ((ZERO, ZERO), (NAN, HUGE), (HUGE, NAN)):
        assert refilled(filled(_of(1.0), kind, ["stack"])) == filled(_of(1.0), other, ["stack"])


@pytest.mark.parametrize("fill", [-1, len(FILLS), 128, 0.0])
def test_a_case_file_cannot_ask_for_another(fill: float) -> None:
    with pytest.raises(CaseError, match=f"params.{FILL}: .* is no fill"):
        check_case(replace(a_case(), params={**a_case().params, FILL: fill}))


def _of(value: float) -> Case:
    return a_case(bits=np.full(12, value, "<f4").tobytes())


_TORCH = """
import torch
from torch import empty
def rms_norm(x, y, eps, axis):
    for row, made in enumerate((empty(4), x.new_empty(4), torch.empty_like(x[0]))):
        y[row] = made
"""
_NUMPY = """
import numpy as np
def rms_norm(x, y, eps, axis):
    y[0], y[1], y[2] = np.empty(4, "f4"), np.empty_like(x[0]), np.empty((4, 4), np.float32, "F")[1]
"""


@pytest.mark.some(1)
@pytest.mark.parametrize("text", [_TORCH, _NUMPY])
def test_a_kernel_in_python_is_given_new_memory_that_is_filled(tmp_path: Path, cache: Path, text: str) -> None:
    target = python_target(tmp_path, text, "torch" if "torch" in text else "numpy")
    shown = outcomes(target, cache, *(filled(a_case(), kind) for kind in range(len(FILLS))), a_case())
    words = [*FILLS.values(), [*FILLS.values()][fill_of(a_case())]]
    for word, outcome in zip(words, shown, strict=True):
        assert {*np.frombuffer(outcome.outputs["y"], "<u4").tolist()} == {word * 0x10001}


_RETURNS = {
    "torch": "import torch\n\n\ndef rms_norm(x, eps, axis):\n    y = torch.empty_like(x)\n",
    "numpy": "import numpy as np\n\n\ndef rms_norm(x, eps, axis):\n    y = np.empty_like(x)\n",
}


@pytest.mark.some(1)
@pytest.mark.parametrize("framework", _RETURNS)
def test_what_is_returned_and_was_never_written_is_said_to_be_so(tmp_path: Path, cache: Path, framework: str) -> None:
    target = python_target(tmp_path, f"{_RETURNS[framework]}    y[0, 0] = 0.0\n    return y\n", framework)
    shown = outcomes(target, cache, *(filled(a_case(), kind) for kind in range(len(FILLS))))
    assert not shown[ZERO].unwritten, "an element of 0 may be a result"
    assert {each.unwritten for each in shown[1:]} == {(Unwritten("y", 1, 11),)}


def test_a_result_that_looks_like_new_memory_is_a_result(tmp_path: Path, cache: Path) -> None:
    word = [*FILLS.values()][ORDINARY] * 0x10001
    text = f"{_RETURNS['numpy']}    y.view('u4')[...] = {word}\n    return y\n"
    (outcome,) = outcomes(python_target(tmp_path, text, "numpy"), cache, filled(a_case(), ORDINARY))
    assert {*np.frombuffer(outcome.outputs["y"], "<u4").tolist()} == {word}
    assert not outcome.unwritten


_SCRIPTED = """import torch


@torch.jit.script
def copied(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x).copy_(x) + 0 * torch.empty([1]).zero_()


"""
_COMPILED = """import torch


@torch.compile(backend="eager", fullgraph=True)
def copied(x):
    return torch.empty_like(x).copy_(x) + 0 * x.new_empty(1).zero_()


"""
_OF_A_PART = """import torch


def copied(x):
    whole = torch.zeros(64)
    part = torch.empty(2, out=whole[8:])
    return x + whole[:8].sum() + whole[10:].sum() + 0 * part.zero_().sum()


"""


@pytest.mark.some(1)
@pytest.mark.parametrize("head", [_SCRIPTED, _OF_A_PART, _COMPILED], ids=["scripted", "a part", "compiled"])
def test_functions_that_torch_reads_may_still_allocate(tmp_path: Path, cache: Path, head: str) -> None:
    source = f"{head}def rms_norm(x, y, eps, axis):\n    y.copy_(copied(x))\n"
    (outcome,) = outcomes(python_target(tmp_path, source), cache, filled(_of(1.0), HUGE))
    assert outcome.outputs["y"] == _of(1.0).inputs["x"].bits, outcome


def test_memory_of_a_gpu_is_filled_by_what_is_queued() -> None:
    """Here in memory of the processor, as the same operations do it."""
    for word in FILLS.values():
        made = torch.zeros(3, 5, dtype=torch.float32)
        fill_on_gpu(made.t(), word)
        assert {*made.view(torch.int32).flatten().tolist()} == {word * 0x10001 - (word >> 15 << 32)}
        odd = torch.zeros(7, dtype=torch.uint8)
        fill_on_gpu(odd, word)
        assert odd.tolist() == [*word.to_bytes(2, "little") * 3, 0]


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_what_fills_shared_memory_is_understood_by_the_assembler(tmp_path: Path) -> None:
    source = Path(shared_memory.__file__).with_name("shared.ptx")
    made = tmp_path / "shared.cubin"
    subprocess.run(["nvcc", "-cubin", "-arch=sm_75", str(source), "-o", str(made)], check=True)
    assert {*functions(made)} == {b"kf_fill_shared"}
