"""Lanes that a masked load leaves out are not read, whatever an emulator does: no kernel is accused of reading them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from fuzz.cli.exits import Exit
from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.adapters.target import Attestation, Target
from fuzz.core.base.case import contiguous
from fuzz.core.base.kernel import PLAIN
from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.judge.judge import Judge
from fuzz.tests.common.planted import ANYTHING, a_case, c_target
from fuzz.tests.conftest import Cli

SAID = "the emulator reads lanes that a masked load leaves out (attested at start): only hardware can judge such a case"

AVX2 = """
#include <immintrin.h>
#include <math.h>
#include "kernelfuzz.h"

/* As many lanes as are left of a row, from none to all eight. */
static __m256i live(int64_t left) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)left), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

int kf_rms_norm(const kf_rms_norm_call *c) {
    const int64_t n = c->x.rank ? c->x.shape[c->x.rank - 1] : 1;
    int64_t rows = 1;
    for (int axis = 0; axis + 1 < c->x.rank; axis++) rows *= c->x.shape[axis];
    for (int64_t i = 0; i < rows; i++) {
        const float *x = (const float *)c->x.data + i * n;
        float *y = (float *)c->y.data + i * n, lanes[8];
        __m256 sum = _mm256_setzero_ps();
        for (int64_t j = 0; j < n; j += 8) {
            const __m256 v = _mm256_maskload_ps(x + j, live(n - j));
            sum = _mm256_fmadd_ps(v, v, sum);
        }
        _mm256_storeu_ps(lanes, sum);
        for (int half = 4; half > 0; half /= 2)
            for (int k = 0; k < half; k++) lanes[k] += lanes[k + half];
        const __m256 rstd = _mm256_set1_ps(1.0f / sqrtf(lanes[0] / (float)n + c->eps));
        for (int64_t j = 0; j < n; j += 8) {
            const __m256i mask = live(n - j);
            _mm256_maskstore_ps(y + j, mask, _mm256_mul_ps(_mm256_maskload_ps(x + j, mask), rstd));
        }
        PLANTED
    }
    return KF_OK;
}
"""
"""A correct kernel, whose tails are masked."""

SVE = """
#include <arm_sve.h>
#include "kernelfuzz.h"

int kf_rms_norm(const kf_rms_norm_call *c) {
    const float *x = c->x.data;
    float *y = c->y.data;
    const int64_t n = c->x.shape[0] * c->x.shape[1];
    for (int64_t i = 0; i < n;) {
        const svbool_t live = svwhilelt_b32(i, n), all = svptrue_b32();
        const svuint32_t places = svindex_u32(0, 1);
        const svfloat32_t plain = svld1(live, x + i), gathered = svld1_gather_index(live, x + i, places);
        svst1(live, y + i, plain);
        svst1_scatter_index(live, y + i, places, gathered);
        svsetffr();
        const svfloat32_t first = svldff1(all, x + i); /* all lanes: those that would fault are left out */
        const svbool_t read = svrdffr();
        svst1(svand_z(all, read, live), y + i, first);
        svsetffr();
        const svfloat32_t none = svldnf1(all, x + i);
        svst1(svand_z(all, svrdffr(), live), y + i, none);
        if (!svptest_first(all, read)) return KF_REJECTED;
        i += svcntp_b32(all, svand_z(all, read, live));
    }
    return KF_OK;
}
"""
"""It copies: with predicated loads and stores, gathers and scatters, first-faulting and non-faulting loads."""

Place = Callable[[str, str], Outcome]


def target_of(folder: Path, source: str, place: str, isa: str = "avx2", bits: int | None = None) -> Target:
    path = folder / "masked.c"
    path.write_text(source)
    target = c_target(CKernel("masked", "rms_norm", path, isa, PLAIN, ANYTHING), place, bits=bits)
    reason = target.unavailable()
    if place == "native" and reason is not None:
        assert "installed" not in reason, f"tests need every compiler: {reason}"
        pytest.skip(reason)
    return target


@pytest.fixture
def outcome_at(tmp_path: Path, cache: Path) -> Place:
    """The outcome of the kernel with more planted in each row, on three rows of nine elements."""

    def go(place: str, planted: str) -> Outcome:
        target = target_of(tmp_path, AVX2.replace("PLANTED", planted), place)
        with WorkerPool([target], cache=cache) as pool:
            (found,) = pool.submit([a_case(contiguous((3, 9)))]).outcomes()
        return found[target.id]

    return go


def verdict_of(outcome: Outcome) -> tuple[Verdict, str]:
    judgement = Judge(a_case(contiguous((3, 9)))).judge(outcome, PLAIN)
    return judgement.verdict, judgement.reason


def test_a_masked_load_is_not_accused_by_an_emulator(outcome_at: Place) -> None:
    assert verdict_of(outcome_at("qemu", "")) == (Verdict.NOT_RUN, SAID)


def test_hardware_judges_a_masked_load(outcome_at: Place) -> None:
    assert verdict_of(outcome_at("native", "")) == (Verdict.PASS, "")


@pytest.mark.some(1)
@pytest.mark.parametrize("byte", [0, 36])
def test_another_load_of_such_a_kernel_is_accused_everywhere(outcome_at: Place, byte: int, place: str) -> None:
    """Before the first masked load of the last row. What decides is the instruction that faults, and not how near."""
    stray = f"if (i == 1) *(volatile float *)((char *)c->x.data + 3 * n * 4 + {byte});"
    verdict, reason = verdict_of(outcome_at(place, stray))
    assert verdict is Verdict.FAIL_MEMORY
    assert reason.startswith("SIGSEGV: read ")


def test_a_live_lane_past_the_end_is_accused_by_hardware(outcome_at: Place) -> None:
    stray = "volatile __m256 v = _mm256_maskload_ps(x + n, live(i == 2)); (void)v;"
    verdict, reason = verdict_of(outcome_at("native", stray))
    assert (verdict, reason) == (Verdict.FAIL_MEMORY, "SIGSEGV: read right after the end of x, row 2, column 8")
    assert verdict_of(outcome_at("qemu", stray))[0] is Verdict.NOT_RUN


def test_what_was_written_where_it_must_not_be_counts_all_the_same(outcome_at: Place) -> None:
    """The kernel is stopped by the emulator after it did wrong."""
    outcome = outcome_at("qemu", "if (i == 0) ((float *)c->y.data)[-1] = 1;")
    verdict, reason = verdict_of(outcome)
    assert verdict is Verdict.FAIL_MEMORY
    assert "wrote 4 bytes outside y" in reason


def test_the_worker_attests_it_at_start(tmp_path: Path, cache: Path) -> None:
    target = target_of(tmp_path, AVX2.replace("PLANTED", ""), "qemu")
    with WorkerPool([target], cache=cache) as pool:
        status = pool.statuses[target.id]
    assert isinstance(status, Attestation)
    assert status.undecidable == SAID


def test_hardware_attests_nothing_of_the_kind(tmp_path: Path, cache: Path) -> None:
    target = target_of(tmp_path, AVX2.replace("PLANTED", ""), "native")
    with WorkerPool([target], cache=cache) as pool:
        status = pool.statuses[target.id]
    assert isinstance(status, Attestation)
    assert status.undecidable == ""


@pytest.mark.parametrize("bits", [128, 384, 2048])
def test_the_lanes_that_sve_leaves_out_are_not_read(tmp_path: Path, cache: Path, bits: int) -> None:
    """The emulator has these right: they are judged there."""
    target = target_of(tmp_path, SVE, "qemu", "sve", bits)
    case = a_case(contiguous((3, 9)))
    with WorkerPool([target], cache=cache) as pool:
        (found,) = pool.submit([case]).outcomes()
    assert (found[target.id].status, found[target.id].outputs) == (Status.RAN, {"y": case.inputs["x"].bits})


def pack_of(folder: Path, source: str = AVX2) -> None:
    """A pack of that kernel."""
    (folder / "masked.c").write_text(source.replace("PLANTED", ""))
    (folder / "pack.py").write_text(
        "from pathlib import Path\n"
        "from fuzz import CKernel, Contract, Lanes\n"
        "KERNELS = (CKernel('masked', 'rms_norm', Path(__file__).parent / 'masked.c', 'avx2',\n"
        "    contract=Contract(sums={'n': Lanes(8, 1, 'predicated')})),)\n"
    )


def test_a_run_says_what_it_left_to_hardware(tmp_path: Path, cli_here: Cli) -> None:
    pack_of(tmp_path)
    options = ("--pack", str(tmp_path), "--target", "*@qemu:gcc-O2", "--max-cases", "60", "--seed", "1")
    done = cli_here("run", *options)
    assert done.returncode == Exit.OK, done.stdout + done.stderr
    assert re.search(rf"^NOT_RUN c-masked@qemu:gcc-O2: [1-9]\d* of 60 runs: {re.escape(SAID)}$", done.stdout, re.M)


def test_the_doctor_says_what_an_emulator_gets_wrong(tmp_path: Path, cli_here: Cli) -> None:
    pack_of(tmp_path)
    done = cli_here("doctor", "--pack", str(tmp_path))
    assert f"on 2 targets {SAID}" in " ".join(done.stdout.split())
