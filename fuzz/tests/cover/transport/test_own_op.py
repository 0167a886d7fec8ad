"""An op that is registered at run time: its C interface is generated, and workers of all kinds call its kernels."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from fuzz.core.adapters import abi
from fuzz.core.adapters.build import Builder, BuildError
from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.adapters.export import Allowed, Script
from fuzz.core.adapters.python_kernel import PythonKernel
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import Target
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.capability import Capabilities
from fuzz.core.base.case import Case, CaseError, Layout, Output, Tensor, contiguous
from fuzz.core.base.dtypes import NUMPY_DTYPE
from fuzz.core.base.outcome import Outcome, Status, Unwritten
from fuzz.core.transport import records
from fuzz.core.transport.frames import Response, encode_case, outcome_of
from fuzz.core.transport.steps import taken
from fuzz.tests.common.own_op import C_KERNEL, OP, PYTHON_KERNEL, RESULTS, cases, registered
from fuzz.tests.common.planted import c_program, c_target
from fuzz.tests.conftest import Cli
from oracles.dtypes import DTYPES, ITEMSIZE
from oracles.op import Op
from oracles.operand import Operand, OpError, Parameter
from oracles.ops import OPS

PACK = """
from pathlib import Path
from fuzz import CKernel
KERNELS = (CKernel("own", "blend", Path(__file__).parent / "own.c"),)
"""
TAKES = Capabilities(takes=("scale", "edge_of_each_row"))


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with registered():
        yield


@pytest.fixture
def kernel(tmp_path: Path) -> CKernel:
    source = tmp_path / "own.c"
    source.write_text(C_KERNEL)
    return CKernel("own", "blend", source, "runtime", capabilities=TAKES)


def outcomes(target: Target, cache: Path, given: tuple[Case, ...]) -> list[Outcome]:
    """What a worker of the target answers."""
    program = target.adapter.program(target, Builder(cache))
    process = program.process(20.0)
    found: list[Response] = []
    try:
        program.attested(taken(process.hello()))
        taken(process.exchange([encode_case(case) for case in given], found.extend))
    finally:
        process.close()
    return [outcome_of(response, case, target.id) for response, case in zip(found, given, strict=True)]


def results(found: list[Outcome]) -> tuple[dict[str, list[float]], ...]:
    return tuple({name: np.frombuffer(bits, "<f4").tolist() for name, bits in each.outputs.items()} for each in found)


@pytest.mark.parametrize("place", ["native", "qemu"])
def test_a_c_kernel_is_given_what_the_op_says(kernel: CKernel, cache: Path, place: str) -> None:
    target = c_target(kernel, place)
    assert target.unavailable() is None, "tests need every compiler and emulator: kernelfuzz doctor --install"
    assert results(outcomes(target, cache, cases())) == RESULTS


@pytest.mark.parametrize(
    ("more", "shift", "count"),
    [("", "3", 1), (", shift", "shift", 2), (", **more", "more['shift']", 2)],
)
def test_a_python_kernel_is_given_what_it_takes(tmp_path: Path, cache: Path, more: str, shift: str, count: int) -> None:
    """A parameter with a neutral value is left out where the function has none of its name."""
    source = tmp_path / "own.py"
    text = PYTHON_KERNEL.format(more=more, shift=shift)
    if "**" in more:
        text = text.replace(", **more", "").replace("=None):", "=None, **more):")
    source.write_text(text)
    [target] = expand([PythonKernel("own", "blend", source, "numpy", capabilities=TAKES)], this_host())
    assert results(outcomes(target, cache, cases()[:count])) == RESULTS[:count]


@pytest.mark.parametrize("wrong", [0, 1])
def test_a_script_of_it_compiles_and_judges(kernel: CKernel, tmp_path: Path, wrong: int) -> None:
    case = cases()[1]
    allowed = {name: [Allowed(i, v, v + wrong, 0) for i, v in enumerate(vs)] for name, vs in RESULTS[1].items()}
    allowed["result"][0] = Allowed(0, float(wrong), float(wrong), 0)
    target = c_target(kernel, "native")
    text = target.adapter.export(target, Script((case,), allowed), [], "script.c")
    path = tmp_path / "script.c"
    path.write_text(text)
    assert 'kernelfuzz.h"' not in text
    subprocess.run(["gcc", "-std=gnu11", "-o", tmp_path / "script", path, "-lm"], check=True)
    ended = subprocess.run([tmp_path / "script"], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout.splitlines()[-1]) == (wrong, "FAILED" if wrong else "passed")


@pytest.mark.whole
def test_an_op_more_builds_nothing_else_anew(kernel: CKernel, tmp_path: Path) -> None:
    cache = tmp_path / "cache"

    target = c_target(kernel, "native")
    before, files = c_program(target, Builder(cache)), {path.name for path in cache.iterdir()}
    with registered(replace_name(OP, "another")):
        assert c_program(target, Builder(cache)) == before
    assert {path.name for path in cache.iterdir()} == files


def replace_name(op: Op, name: str) -> Op:
    def formula() -> dict[str, object]:
        return {}

    formula.__name__ = name
    return replace(op, formula=formula)


def test_a_header_has_its_own_op_and_those_that_the_kernel_names() -> None:
    source = "int kf_rms_norm(const kf_rms_norm_call *call); kf_tensor t; // kf_fused_add_rms_norm_backward_call"
    found = abi.named_ops(OPS["blend"], [source])
    assert [op.name for op in found] == ["blend", "fused_add_rms_norm_backward", "rms_norm"]
    text = abi.header(found)
    assert [text.count(f"}} kf_{op.name}_call;") for op in found] == [1, 1, 1]
    assert "kf_fused_add_rms_norm(" not in text


@pytest.mark.parametrize("op", [replace_name(OP, "tensor"), replace(OP, parameters=(Parameter("register", (1.0,)),))])
def test_what_c_has_no_words_for_is_refused_in_one_line(op: Op) -> None:
    with pytest.raises(BuildError, match="no C kernel can have") as caught:
        abi.declaration(op)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["axis", "threads", "a" * 32])
def test_names_that_calls_cannot_carry_are_refused(name: str) -> None:
    with pytest.raises(OpError, match=name):
        replace(OP, inputs=(*OP.inputs, Operand(name, "... k")))


def test_more_tensors_than_a_case_can_have_are_refused() -> None:
    with pytest.raises(OpError, match="more than 48"):
        replace(OP, inputs=(*OP.inputs, *(Operand(f"x{i}", "... k") for i in range(44))))


def test_the_header_is_printed_as_kernels_see_it(kernel: CKernel, cli_here: Cli, tmp_path: Path) -> None:
    """It is whole: what is written against it compiles with nothing of ours around."""
    (tmp_path / "pack.py").write_text(PACK)
    kernel.source.rename(tmp_path / "later.c")
    shown = cli_here("header", "blend", "--pack", str(tmp_path))
    assert shown.stderr == "", "a kernel may be written after its header"
    (tmp_path / "later.c").rename(kernel.source)
    assert shown.stdout == abi.header([OP])
    (tmp_path / "kernelfuzz.h").write_text(shown.stdout)
    subprocess.run(["gcc", "-Wall", "-Werror", "-c", kernel.source, "-o", tmp_path / "own.o"], check=True)


COPY = """
#include <string.h>
#include "kernelfuzz.h"
int kf_blend(const kf_blend_call *call) {
    static const int sizes[] = {0, SIZES};
    const kf_tensor *from = &call->given, *to = &call->result;
    const int64_t size = sizes[from->dtype], n = from->shape[1] - (call->share == 0.5f);
    if (call->share == 2.0f) ((char *)to->data)[-1] = 1;
    for (int64_t i = 0; i < from->shape[0]; i++)
        for (int64_t j = 0; j < n; j++)
            memcpy((char *)to->data + (i * to->strides[0] + j * to->strides[1]) * size,
                   (char *)from->data + (i * from->strides[0] + j * from->strides[1]) * size, size);
    return KF_OK;
}
""".replace("SIZES", ", ".join(map(str, ITEMSIZE.values())))


def typed(dtype: str, share: float) -> Case:
    """Odd sizes, at both ends of memory, one tensor with gaps; the poisons of outputs are among the values."""
    size = ITEMSIZE[dtype]
    bits = bytes([1, 0, 1] * 3) if dtype == "bool" else b"\xfd\x7f\xfa\x80\xff\x07\x7e\xc1\x09" * size
    given = Tensor(dtype, Layout((3, 3), (-7, 2), "after", 1), bits)
    other = Tensor(dtype, contiguous((3, 3)), bits)
    result = Layout((3, 3), (4, 1), "before", 3) if share == 1.0 else contiguous((3, 3), "before", 3)
    inputs = {"given": given, "other": other}
    return Case("blend", {"share": share, "axis": 1}, inputs, {"result": Output(dtype, result)})


@pytest.mark.parametrize("place", ["native", "qemu"])
def test_every_dtype_reaches_a_kernel_and_comes_back(kernel: CKernel, cache: Path, place: str) -> None:
    kernel.source.write_text(COPY)
    given = tuple(typed(dtype, share) for share in (1.0, 0.5, 2.0) for dtype in ITEMSIZE)
    found = outcomes(c_target(kernel, place), cache, given)
    whole, partly, beyond = (found[i : i + len(ITEMSIZE)] for i in range(0, len(found), len(ITEMSIZE)))
    for case, outcome in zip(given, whole, strict=False):
        assert outcome == Outcome(outcome.target, Status.RAN, {"result": case.inputs["given"].bits})
    for outcome in partly:
        assert outcome.unwritten == (Unwritten("result", 2, 3),)
    for outcome in beyond:
        assert [(each.tensor, each.where, each.count) for each in outcome.damage] == [("result", "before", 1)]


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_every_dtype_reaches_a_function_and_comes_back(tmp_path: Path, cache: Path, framework: str) -> None:
    source = tmp_path / "own.py"
    source.write_text(
        "def blend(given, other, *, share, result):\n"
        "    result[:, : 2 if share == 0.5 else 3] = given[:, : 2 if share == 0.5 else 3]\n"
    )
    [target] = expand([PythonKernel("own", "blend", source, framework, devices=("cpu",))], this_host())
    dtypes = [name for name, each in DTYPES.items() if framework == "numpy" or hasattr(torch, each.spelling)]
    assert len(dtypes) > 10
    # torch has no strides below zero.
    given = tuple(replace_layout(typed(dtype, share)) for share in (1.0, 0.5) for dtype in dtypes)
    found = outcomes(target, cache, given)
    for case, outcome in zip(given, found[: len(dtypes)], strict=False):
        assert outcome == Outcome(outcome.target, Status.RAN, {"result": case.inputs["given"].bits})
    for outcome in found[len(dtypes) :]:
        assert outcome.unwritten == (Unwritten("result", 2, 3),)


def replace_layout(case: Case) -> Case:
    given = case.inputs["given"]
    forward = replace(given, layout=replace(given.layout, strides=(7, 2)))
    return replace(case, inputs={**case.inputs, "given": forward})


def test_the_codes_of_dtypes_are_those_of_the_header() -> None:
    rows = re.findall(r"KF_(\w+) = (\d+), +/\* (\w+) \*/$", abi.header([]), re.MULTILINE)
    assert [(name.lower(), int(code)) for name, code, _ in rows] == [*records.DTYPES.items()]
    assert [said for _, _, said in rows] == [each.spelling for each in DTYPES.values()]
    assert {*NUMPY_DTYPE} == {*DTYPES}


def test_a_bool_is_0_or_1() -> None:
    with pytest.raises(CaseError, match="neither 0 nor 1"):
        Tensor("bool", contiguous((3,)), b"\0\1\2")
