"""Kernels in WebAssembly: an instruction of two legal answers, and what is seen without signals and guard pages."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from fuzz.core.adapters.build import Builder
from fuzz.core.adapters.c import CAttestation
from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import NotRun, Target
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.case import Case, Layout, contiguous
from fuzz.core.base.fill import FILLS, HUGE, filled
from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.transport import records
from fuzz.core.transport.frames import Response, encode_case
from fuzz.core.transport.steps import taken
from fuzz.tests.common.planted import ANYTHING, HEAD, a_case, c_program, values

pytest.importorskip("wasmtime")

_DOT = """copy(c);
    const v128_t seven = wasm_i8x16_splat(100), more = wasm_i8x16_splat((char)0x90);
    const v128_t sum = wasm_i32x4_relaxed_dot_i8x16_i7x16_add(seven, more, wasm_i32x4_splat(0));
    row(&c->y, 0)[0] = (float)wasm_i32x4_extract_lane(sum, 0);"""

_SIGNED, _UNSIGNED = 4.0 * 100 * -0x70, 4.0 * 100 * 0x90


def _targets(folder: Path, body: str, isa: str = "simd128") -> dict[str, Target]:
    """By engine, with optimisation."""
    source = folder / "planted.c"
    source.write_text(f"#include <wasm_simd128.h>\n#include <malloc.h>\n{HEAD}{body}\n    return KF_OK;\n}}\n")
    kernel = CKernel("planted", "rms_norm", source, isa, capabilities=ANYTHING)
    found = [each for each in expand([kernel], this_host()) if each.id.endswith("-O2")]
    return {each.id.partition("engine=")[2].partition(",")[0]: each for each in found}


def _outcomes(target: Target, cache: Path, *cases: Case) -> list[Outcome]:
    with WorkerPool([target], cache=cache) as pool:
        found = pool.submit(cases).outcomes()
        attested = pool.statuses[target.id]
    assert isinstance(attested, CAttestation), attested
    assert attested.arch == "wasm32"
    return [each[target.id] for each in found]


def _first(outcome: Outcome) -> float:
    return float(np.frombuffer(outcome.outputs["y"], "<f4")[0])


def test_an_instruction_of_two_legal_answers_has_each_in_some_engine(tmp_path: Path, cache: Path) -> None:
    """On x86, whose instruction takes one of the operands for unsigned."""
    targets = _targets(tmp_path, _DOT, "relaxed-simd")
    assert [*targets] == ["deterministic", "native", "node"]
    assert _first(_outcomes(targets["deterministic"], cache, a_case())[0]) == _SIGNED
    here = _UNSIGNED if this_host().arch == "x86_64" else _SIGNED
    assert _first(_outcomes(targets["native"], cache, a_case())[0]) == here


@pytest.mark.whole
@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_node_is_a_third_engine_unless_it_lacks_such_instructions(tmp_path: Path, cache: Path) -> None:
    """V8 11.3, of node 20, has them for an experiment, and adds one of them to itself."""
    target = _targets(tmp_path, _DOT, "relaxed-simd")["node"]
    with WorkerPool([target], cache=cache) as pool:
        status = pool.statuses[target.id]
        [found] = pool.submit([a_case()]).outcomes()
    if isinstance(status, NotRun):
        assert re.fullmatch(r"V8 (\S+) cannot run it: .*", status.reason)
        assert not status.broken
    else:
        assert _first(found[target.id]) in (_SIGNED, _UNSIGNED)


@pytest.mark.whole
@pytest.mark.parametrize("engine", ["native", "node"])
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("__builtin_trap();", "unreachable"),
        ("copy(c); ((volatile float *)-8)[0] = 1;", "out of bounds"),
        ('copy(c); volatile char *deep = __builtin_alloca(16 << 20); deep[0] = 1;', "out of bounds"),
        ("if (c->x.shape[0] > 1) for (volatile int n = 0; n == 0;); copy(c);", ""),
    ],
)  # fmt: skip
def test_a_trap_is_a_crash_and_the_next_case_runs(
    tmp_path: Path, cache: Path, engine: str, body: str, said: str
) -> None:
    target = _targets(tmp_path, f"if (c->x.shape[0] == 1) {{ copy(c); return KF_OK; }} {body}")[engine]
    before, broken, after = _outcomes(target, cache, _one_row(), a_case(), _one_row())
    assert broken.status is (Status.DIED if said else Status.HUNG), broken
    assert said in broken.detail
    assert before.status is after.status is Status.RAN


def _one_row() -> Case:
    return a_case(x=contiguous((1, 4)))


_STRAYS = {
    "row(&c->y, rows)[0]": ("gap", "after"),
    "row(&c->y, 0)[-1]": ("gap", "before"),
    "row(&c->y, 0)[4]": ("gap", "inside"),
    "row(&c->x, 0)[0]": ("input", "inside"),
}
"""What a kernel writes and does not own, and what the damage is."""


@pytest.mark.some(1)
@pytest.mark.parametrize(("stray", "damage"), _STRAYS.items())
def test_what_a_kernel_writes_beside_its_outputs_is_seen_at_both_ends(
    tmp_path: Path, cache: Path, stray: str, damage: tuple[str, str]
) -> None:
    target = _targets(tmp_path, f"copy(c); {stray} = 7;")["native"]
    strides = (6, 1) if damage == ("gap", "inside") else (4, 1)
    found = _outcomes(target, cache, *(a_case(y=Layout((3, 4), strides, guard)) for guard in ("after", "before")))
    assert [[(each.kind, each.where) for each in outcome.damage] for outcome in found] == [[damage]] * 2


@pytest.mark.whole
def test_new_memory_is_filled_and_what_is_printed_is_no_answer(tmp_path: Path, cache: Path) -> None:
    shows = (
        'copy(c); uint32_t *volatile made = malloc(64); *(uint32_t *)c->y.data = made[3]; puts("y"); fflush(stdout);'
    )
    target = _targets(tmp_path, shows)["native"]
    (found,) = _outcomes(target, cache, filled(a_case(), HUGE))
    assert np.frombuffer(found.outputs["y"], "<u4")[0] == FILLS["a huge number"] * 0x10001
    assert np.array_equal(np.frombuffer(found.outputs["y"], "<f4")[1:], values((3, 4)).reshape(-1)[1:])


@pytest.mark.whole
def test_a_storage_beyond_its_memory_is_not_run(tmp_path: Path, cache: Path) -> None:
    """Elsewhere only the pages of its elements are accessible."""
    program = c_program(_targets(tmp_path, "copy(c);")["native"], Builder(cache))
    process, found = program.process(5.0), list[Response]()
    far = a_case(x=Layout((3, 4), (1 << 30, 1)))
    try:
        taken(process.hello())
        taken(process.exchange([encode_case(far), encode_case(a_case())], found.extend))
    finally:
        process.close()
    assert [each.status for each in found] == [records.NO_MEMORY, records.RAN]
