"""Each configuration of a kernel is a target: those of Triton's autotuners, and those that a kernel declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import fuzz
from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.adapters.configured import MOST_RUN, joined, read, usual
from fuzz.core.adapters.python_kernel import PythonKernel
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import AttestationError, Configuration, Target
from fuzz.core.base.capability import DeclarationError
from fuzz.core.base.case import Case, contiguous
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.base.selection import globs, matches_any
from fuzz.core.execute.pool import WorkerPool
from fuzz.explain.explanation import Explanation
from fuzz.report.brief import headline
from fuzz.tasks.check.setup import GIVEN
from fuzz.tests.common.planted import ANYTHING, a_case
from fuzz.tests.common.python_planted import TRITON_HEAD

PROGRAM = """
@triton.jit
def program(x_ptr, y_ptr, pitch, n, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * pitch + column, mask=column < n, other=0.0)
    tl.store(y_ptr + row * n + column, x * BLOCK, mask=column < n)


def rms_norm(x, y, eps, axis):
    program[lambda meta: (x.shape[0] + 0 * meta["BLOCK"],)](x, y, x.stride(0), x.shape[1])
"""
"""Each configuration of it returns something else, so that a test sees which one ran."""
WIDE = a_case(contiguous((3, 12)), bits=bytes(range(1, 145)))


def configs(blocks: Sequence[int], more: str = "") -> str:
    made = ", ".join(f'triton.Config({{"BLOCK": {block}}})' for block in blocks)
    return f'\n@triton.autotune(configs=[{made}], key=["n"]{more})'


def kernel_of(
    folder: Path, text: str, framework: str = "triton", op: str = "rms_norm", **declared: object
) -> PythonKernel:
    source = folder / "planted.py"
    source.write_text(text)
    declared = {"capabilities": ANYTHING, **declared}
    return PythonKernel("planted", op, source, framework, **declared)  # type: ignore[arg-type]


def interpreted(folder: Path, text: str) -> tuple[Target, ...]:
    return expand([kernel_of(folder, TRITON_HEAD + text, devices=("interpret",))])


def outcomes(targets: Sequence[Target], cache: Path, *cases: Case) -> list[dict[str, Outcome]]:
    with WorkerPool(targets, cache=cache) as pool:
        found = pool.submit(cases).outcomes()
    return [{name.partition(":")[2]: outcome for name, outcome in each.items()} for each in found]


def factors(found: Mapping[str, Outcome], case: Case) -> dict[str, float]:
    """By what each configuration multiplied the first element."""
    import numpy as np

    first = np.frombuffer(case.inputs["x"].bits, np.float32)[0]
    return {name: float(np.frombuffer(each.outputs["y"], np.float32)[0] / first) for name, each in found.items()}


def test_each_configuration_of_an_autotuner_is_a_target_and_runs_alone(tmp_path: Path, cache: Path) -> None:
    targets = interpreted(tmp_path, configs((8, 16, 32)) + PROGRAM)
    assert [each.id for each in targets] == [f"triton-planted@interpret:BLOCK={block}" for block in (8, 16, 32)]
    assert [dict(each.told)["BLOCK"] for each in targets] == ["8", "16", "32"], "rules of failing can name it"
    [found] = outcomes(targets, cache, a_case())
    assert factors(found, a_case()) == {"BLOCK=8": 8, "BLOCK=16": 16, "BLOCK=32": 32}
    assert [each.id for each in usual(targets)] == ["triton-planted@interpret:BLOCK=8"], "it is measured in one"


def test_what_only_the_hardware_sees_makes_no_target_in_the_interpreter(tmp_path: Path) -> None:
    tuned = 'triton.Config({"BLOCK": 8, "WHOLE": w}, num_warps=n, num_stages=2) for w in (True, False) for n in (4, 8)'
    text = f"\n@triton.autotune(configs=[{tuned}], key=[])" + PROGRAM.replace(
        "BLOCK: tl.constexpr", "BLOCK: tl.constexpr, WHOLE: tl.constexpr"
    )
    assert [each.name.settings for each in interpreted(tmp_path, text)] == [(("WHOLE", "True"),), (("WHOLE", "False"),)]


@pytest.mark.whole
def test_with_several_autotuners_each_configuration_of_each_runs_once(tmp_path: Path, cache: Path) -> None:
    second = PROGRAM.replace("def program", "def second").partition("\n\n\ndef ")[0]
    text = configs((8, 16)) + second + configs((32, 64, 128)) + PROGRAM
    text += "    second[(x.shape[0],)](y, y, x.shape[1], x.shape[1])\n"
    targets = interpreted(tmp_path, text)
    assert [each.configuration.text for each in targets] == [
        "program.BLOCK=32, second.BLOCK=8", "program.BLOCK=64, second.BLOCK=8", "program.BLOCK=128, second.BLOCK=8",
        "program.BLOCK=32, second.BLOCK=16",
    ]  # fmt: skip
    [found] = outcomes(targets, cache, a_case())
    assert [*factors(found, a_case()).values()] == [256, 512, 1024, 512]


def test_heuristics_and_constants_choose_by_themselves(tmp_path: Path, cache: Path) -> None:
    chosen = '\n@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["n"])})'
    targets = interpreted(tmp_path, chosen + PROGRAM)
    assert [each.id for each in targets] == ["triton-planted@interpret"]
    small, wide = outcomes(targets, cache, a_case(), WIDE)
    assert (*factors(small, a_case()).values(), *factors(wide, WIDE).values()) == (4, 16)
    both = configs((1, 2)).replace("BLOCK", "TIMES") + chosen + PROGRAM.replace("x * BLOCK", "x * BLOCK * TIMES")
    both = both.replace("BLOCK: tl.constexpr", "TIMES: tl.constexpr, BLOCK: tl.constexpr")
    [found] = outcomes(interpreted(tmp_path, both), cache, a_case())
    assert factors(found, a_case()) == {"TIMES=1": 4, "TIMES=2": 8}


@pytest.mark.some(1)
@pytest.mark.parametrize(
    "how",
    [
        '"early_config_prune": lambda configs, args, **more: [c for c in configs if c.kwargs["BLOCK"] >= args["n"]]',
        '"perf_model": lambda n, BLOCK, **more: n > BLOCK, "top_k": 2',
    ],
)
def test_a_configuration_does_not_run_where_it_is_pruned(tmp_path: Path, cache: Path, how: str) -> None:
    """Nor does a kernel that takes any exception for its cue notice it."""
    text = configs((8, 16, 32), f", prune_configs_by={{{how}}}") + PROGRAM.replace("    program[", "  program[")
    text = text.replace("eps, axis):\n", "eps, axis):\n try:\n") + " except Exception:\n  y.copy_(x)\n"
    [wide] = outcomes(interpreted(tmp_path, text), cache, WIDE)
    assert factors(wide, WIDE) == {"BLOCK=16": 16, "BLOCK=32": 32}


@pytest.mark.whole
def test_a_configuration_that_a_static_assertion_rules_out_is_passed_over(tmp_path: Path, cache: Path) -> None:
    text = configs((8, 16)) + PROGRAM.replace("    row,", "    tl.static_assert(BLOCK > 8)\n    row,")
    [found] = outcomes(interpreted(tmp_path, text), cache, a_case())
    assert factors(found, a_case()) == {"BLOCK=16": 16}
    broken = text.replace("tl.static_assert(", "tl.device_assert(1 / (BLOCK - 8) > ")
    [found] = outcomes(interpreted(tmp_path, broken), cache, a_case())
    assert {name: each.status for name, each in found.items()} == {
        "BLOCK=8": Status.RAISED, "BLOCK=16": Status.RAN,
    }  # fmt: skip


def test_no_trial_run_fills_what_a_configuration_leaves_out(tmp_path: Path, cache: Path) -> None:
    text = configs((4, 2)) + PROGRAM  # two columns of four are not reached by the second
    [found] = outcomes(interpreted(tmp_path, text), cache, a_case())
    assert {name: [(each.first, each.count) for each in one.unwritten] for name, one in found.items()} == {
        "BLOCK=4": [], "BLOCK=2": [(2, 6)],
    }  # fmt: skip


def test_an_autotuner_that_is_made_in_a_call_takes_its_first_configuration(tmp_path: Path, cache: Path) -> None:
    made = PROGRAM.replace("    program[lambda", f"    own = {configs((16, 8))[2:]}(program)\n    own[lambda")
    [found] = outcomes(interpreted(tmp_path, made), cache, a_case())
    assert factors(found, a_case()) == {"": 16}


def test_a_kernel_that_cannot_be_loaded_has_one_target(tmp_path: Path) -> None:
    assert [each.id for each in interpreted(tmp_path, configs((8, 16)) + "\n1 / 0" + PROGRAM)] == [
        "triton-planted@interpret"
    ]


def test_of_many_configurations_some_are_run_that_lie_apart() -> None:
    many = [Configuration((("BLOCK", str(place)),), (), (place,)) for place in range(3 * MOST_RUN)]
    found = joined((), many)
    assert [each.choices for each in found] == [each.choices for each in many]
    assert [each.choices[0] for each in found if not each.spare] == [*range(0, 3 * MOST_RUN, 3)]
    assert found[1].spare.startswith(f"{MOST_RUN} of its {3 * MOST_RUN} configurations are run")


def test_a_pattern_without_a_configuration_means_all_of_them() -> None:
    name = "triton-mine@cuda:BLOCK=8,num_warps=4"
    for pattern in ("triton@cuda", "*@cuda", "triton-mine@*", "*@*:BLOCK=8*", "*num_warps=4"):
        assert matches_any(name, globs([pattern])), pattern
    for pattern in ("triton@interpret", "torch@cuda", "*@cuda:BLOCK=16*"):
        assert not matches_any(name, globs([pattern])), pattern


def test_a_worker_says_its_configurations_in_words_that_may_be_printed() -> None:
    assert read('[[[["BLOCK", "8"]], [0]]]') == (Configuration((("BLOCK", "8"),), (), (0,)),)
    for said in ('[[[["BLOCK", "\\u001b[2J"]], [0]]]', '[[[["BLOCK"]], [0]]]', "{", '[[[["a,b", "8"]], [0]]]'):
        with pytest.raises(AttestationError, match="in no words of ours"):
            read(said)


def test_declared_configurations_are_arguments(tmp_path: Path, cache: Path) -> None:
    text = "import numpy as np\n\n\ndef rms_norm(x, y, eps, axis, times, twice=False):\n    y[...] = x * times\n"
    text += "    if twice:\n        y[...] *= 2\n"
    kernel = kernel_of(tmp_path, text, "numpy", configs=({"times": 1}, {"times": 3, "twice": True}))
    targets = expand([kernel])
    assert [each.id for each in targets] == [
        "numpy-planted@cpu:times=1,twice=none", "numpy-planted@cpu:times=3,twice=True",
    ]  # fmt: skip
    [found] = outcomes(targets, cache, a_case())
    assert [*factors(found, a_case()).values()] == [1, 6]
    kernel.check_op()
    with pytest.raises(DeclarationError, match=r"configs: times=1: it is there twice"):
        expand([kernel_of(tmp_path, text, "numpy", configs=({"times": 1}, {"times": 1}))])
    with pytest.raises(DeclarationError, match="configs: write a tuple of dicts"):
        kernel_of(tmp_path, text, "numpy", configs=(1, 2))


LARGEST = """
#include "kernelfuzz.h"

int kf_row_max(const kf_row_max_call *call) {
    const float *x = call->x.data;
    float *y = call->y.data;
    const int64_t n = call->x.shape[call->x.rank - 1];
    int64_t rows = 1;
    for (int axis = 0; axis + 1 < call->x.rank; axis++) rows *= call->x.shape[axis];
    const int64_t end = STEP > 8 && n > STEP ? n / STEP * STEP : n;
    for (int64_t row = 0; row < rows; row++, x += n) {
        float most = x[0];
        for (int64_t i = 1; i < end; i++) most = x[i] > most || x[i] != x[i] ? x[i] : most;
        y[row] = most;
    }
    return KF_OK;
}
"""
"""With steps of 16 it forgets what 16 does not divide."""


def test_a_kernel_in_c_is_built_in_each_configuration(tmp_path: Path) -> None:
    (tmp_path / "largest.c").write_text(LARGEST)
    kernel = CKernel("largest", "row_max", tmp_path / "largest.c", configs=({"STEP": 8}, "-DSTEP=16 -funroll-loops"))
    every = expand([kernel])
    native = [each for each in every if each.name.site == "native" and each.name.compiler == "gcc"]
    assert [(each.name.where, each.flags[1:]) for each in native if each.name.opt == "O2"] == [
        ("native:STEP=8,flags=none,gcc-O2", ("-DSTEP=8",)),
        ("native:STEP=16,flags=-funroll-loops,gcc-O2", ("-DSTEP=16", "-funroll-loops")),
    ]
    with pytest.raises(DeclarationError, match="write macros"):
        CKernel("largest", "row_max", tmp_path / "largest.c", configs=(3,))  # type: ignore[arg-type]


FORGETS = """
import numpy as np


def row_max(x, y, axis, step):
    n = x.shape[-1]
    y[...] = np.max(x[..., : n // step * step if step > 8 and n > step else n], axis=-1)
"""
"""The same in NumPy, which needs no compiler."""


def largest(folder: Path, framework: str, *configs: Mapping[str, int]) -> Kernel:
    able = fuzz.Capabilities(empty=False, max={"n": 200})
    if framework == "numpy":
        return kernel_of(folder, FORGETS, "numpy", op="row_max", capabilities=able, configs=configs)
    (folder / "largest.c").write_text(LARGEST)
    upper = tuple({name.upper(): value for name, value in each.items()} for each in configs)
    return CKernel("planted", "row_max", folder / "largest.c", capabilities=able, configs=upper)


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("framework", "where", "name"), [("numpy", "*@cpu:*step={}", "step"), ("c", "*@native:STEP={},gcc-O2", "STEP")]
)
def test_a_failure_in_one_configuration_alone_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, framework: str, where: str, name: str
) -> None:
    """Whatever time there is to explain it."""
    monkeypatch.setattr(GIVEN, "options", replace(GIVEN.options, explain_s=1e-3))
    both = largest(tmp_path, framework, {"step": 8}, {"step": 16})
    with pytest.raises(fuzz.CheckFailed) as failed:
        fuzz.check(both, targets=[where.format("*")], max_cases=16, seed=1)
    [told] = failed.value.failures
    assert isinstance(told, Explanation)
    assert matches_any(told.target, globs([where.format(16)]))
    assert told.attribution is not None
    assert (told.attribution.cause, told.attribution.configuration) == ("the configuration", f"{name} = 16")
    assert headline(told).endswith(f", with {name} = 16 only")
    right = largest(tmp_path, framework, {"step": 4}, {"step": 8})
    fuzz.check(right, targets=[where.format("*")], max_cases=20, seed=1)
