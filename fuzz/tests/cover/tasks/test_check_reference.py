"""A kernel is held against a plain function that says what it should compute."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch

import fuzz
from fuzz import Capabilities, Contract
from fuzz.core.adapters.registry import expand
from fuzz.references.derive import op_of
from fuzz.report.events import EVENTS
from fuzz.tasks.check.reference import read
from fuzz.tasks.check.request import GivenData
from fuzz.tasks.check.results import program_ends, told
from fuzz.tasks.check.retrieval import retrieved
from fuzz.tasks.check.setup import GIVEN
from fuzz.tests.common.references import checked, rms_norm, softmax
from fuzz.tests.common.told import fails
from oracles import escalation
from oracles.ops import OPS
from oracles.tests.common.adversary import store

pytestmark = pytest.mark.usefixtures("quick_checks")


def _other(rows: Any, gain: Any) -> Any:
    """The same by other operations in another order, with other names."""
    return rows / torch.sqrt((rows * rows).flip(-1).sum(-1, keepdim=True) / rows.shape[-1] + 1e-6) * gain


def _short(rows: Any, gain: Any) -> Any:
    """Without what 4 does not divide of a row."""
    n = rows.shape[-1]
    squares = (rows * rows)[..., : n // 4 * 4] if n > 4 else rows * rows
    return rows / torch.sqrt(squares.sum(-1, keepdim=True) / n + 1e-6) * gain


def test_what_computes_the_same_passes_and_what_does_not_fails(capsys: pytest.CaptureFixture[str]) -> None:
    """Parameters are matched by their places where their names are others; a line says what was read,
    whether it passes or fails."""
    shapes = {"x": "... n", "w": "n"}
    said = "reference rms_norm: x[..., n], w[n] -> y[..., n], 6 operations, same value as the reference in float64"
    checked(rms_norm, shapes=shapes)
    checked(_other, shapes=shapes)
    told = " ".join(capsys.readouterr().err.split())
    assert told.count(f"{said} at 3 sets of extents; ") == 2
    with fails("_short") as caught:
        checked(_short, shapes=shapes)
    assert said in str(caught.value)
    assert "; by its place rows is given x, gain is given w\n" in str(caught.value)


def test_names_at_other_places_are_refused_with_both_orders() -> None:
    """By its place `x` would be given `w`, and the right kernel would fail."""
    said = r"takes \(x, w\), and the kernel \(weight, x\), whose 'x' is at another place: .*lambda x, w: mine"
    with pytest.raises(fuzz.CheckError, match=said):
        checked(lambda weight, x: rms_norm(x, weight), shapes={"x": "... n", "w": "n"})


@pytest.mark.parametrize("oracle", ["formula", "replay"])
def test_optional_tensors_that_were_never_tried_are_said(
    capsys: pytest.CaptureFixture[str], oracle: Literal["formula", "replay"]
) -> None:
    def scaled(x: Any, bias: Any = None) -> Any:
        return x * 3 if bias is None else x * 3 + bias

    def mine(x: Any, bias: Any = None, gate: Any = None, out: Any = None) -> Any:
        return x * 3 if bias is None else x * 3 - bias

    fuzz.check(mine, reference=scaled, shapes="x=b n", oracle=oracle, max_cases=4, seed=1)
    said = " ".join(capsys.readouterr().err.split())
    assert "left out: bias other than None; to have one tried, check again with its dimensions in shapes" in said
    own = "left out: gate, out of mine, which scaled does not have; to have one tried, check lambda x: mine(x, gate="
    assert own in said
    fuzz.check(lambda x: x * 3, reference=lambda x: x * 3, shapes="x=b n", oracle=oracle, max_cases=4, seed=1)
    assert "left out" not in capsys.readouterr().err


def test_what_takes_long_to_judge_is_told_of_while_a_check_goes_on(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, step = escalation.watch, escalation.PreciseProgress("triple", "y", 3, 40, 9.0)
    monkeypatch.setattr(GIVEN, "console", None)
    monkeypatch.setenv(EVENTS, "1")

    def mine(x: Any) -> Any:
        escalation.watch(step)
        return x * 3

    fuzz.check(mine, reference=lambda x: x * 3, contract=Contract(), max_cases=2, seed=1)
    said = capfd.readouterr().err.splitlines()
    note = {"event": "note", "text": "judging y of triple in many digits, 3 of 40 elements in 9 s of 60 s"}
    assert [json.loads(line) for line in said if "judging" in line] == [note]
    assert escalation.watch is before


def test_no_shapes_are_needed_where_rows_or_examples_say_them() -> None:
    checked(lambda x: torch.exp(torch.log_softmax(x, -1)) if x.shape[-1] == 1 else torch.softmax(x, -1), softmax)
    assert OPS["reference_softmax"].inputs[0].dims == "... n"
    example = torch.ones(3, 5), torch.ones(5)
    checked(_other, example_inputs=example)
    assert [each.dims for each in OPS["reference_rms_norm"].inputs] == ["... n", "n"]
    with pytest.raises(fuzz.CheckError, match=r'such as shapes=\{"x": "b n", "w": "b n"\}, or give example_inputs'):
        checked(_other)


def test_names_of_the_reference_that_an_op_cannot_have_are_those_of_the_kernel() -> None:
    def affine(A: Any, B: Any) -> Any:  # noqa: N803
        return A - B

    def mine(B: Any, A: Any) -> Any:  # noqa: N803
        return -(B - A)

    checked(mine, affine, shapes="A=m n, B=m n")
    checked(lambda p, q: p + -q, affine, shapes="A=m n, B=m n")


def scaled(x: Any, by: float, eps: float = 0.5) -> Any:
    return x * by + eps


def test_what_is_no_tensor_is_the_same_to_both() -> None:
    """A kernel has the value of the reference for its parameter of that name, whatever its own default."""

    def mine(rows: Any, by: float, eps: float = 1.0) -> Any:
        return torch.add(eps, rows, alpha=by)

    checked(mine, scaled, example_inputs={"by": 3.0})
    checked(mine, scaled, shapes="x=m n, by=3.0")
    checked(mine, scaled, shapes={"x": ("m", "n"), "by": 3, "eps": 1.5}, oracle="replay")
    with pytest.raises(
        fuzz.CheckError, match=r"shapes has no 'by': say its dimensions, such as 'by=b n', or .*'by=1.0'"
    ):
        checked(mine, scaled, shapes="x=m n")
    with pytest.raises(
        fuzz.CheckError, match=r"shapes: '\(h' is no name of a dimension, nor one such as 2h, d/2, n\+1 or 2h-1: "
    ):
        checked(_other, shapes={"x": "b (h n)", "w": "n"})
    with pytest.raises(fuzz.CheckError, match=r"x=3 n: 3 is no name of a dimension: .* 'k=3'"):
        checked(mine, scaled, shapes="x=3 n, by=3.0")


@pytest.mark.whole
def test_numpy_kernels_are_held_against_torch_too() -> None:
    def mine(x: Any) -> Any:
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    checked(mine, softmax, arrays="numpy")


def log_ratio(x: Any, y: Any) -> Any:
    return (x.log() - y.log()).sum(-1)


def test_what_a_logarithm_is_taken_of_is_positive_and_more_can_be_asked() -> None:
    found = read(log_ratio, GivenData("x=b n, y=b n"))
    assert [each.values for each in OPS["log_ratio"].inputs] == ["positive", "positive"]
    assert "x and y drawn positive" in found.said
    read(log_ratio, GivenData("x=b n, y=b n", values={"y": "probabilities"}))
    assert [each.values for each in OPS["log_ratio"].inputs] == ["positive", "probabilities"]


def step(p: Any, v: Any, g: Any) -> Any:
    return p - g / ((0.5 * v + 0.5 * g * g).sqrt() + 1e-4)


@pytest.mark.whole
def test_what_a_root_is_taken_of_may_be_zero_where_that_is_a_number() -> None:
    """There alone a kernel that leaves out what is added to the root is far off."""

    def forgets(p: Any, v: Any, g: Any) -> Any:
        return p - g / (0.5 * v + 0.5 * g * g).sqrt()

    found = read(step, GivenData("p=n, v=n, g=n"))
    assert {each.name: each.values for each in OPS["step"].inputs}["v"] == "not_negative"
    assert "v drawn without negative numbers: they give NaN" in found.said
    checked(step, step, shapes="p=n, v=n, g=n")
    with pytest.raises(fuzz.CheckFailed):
        checked(forgets, step, shapes="p=n, v=n, g=n")


def picky(x: Any) -> Any:
    if x.shape[-1] < 2:
        raise ValueError("two are needed")
    return x - x.amax(-1, keepdim=True)


def test_shapes_that_the_reference_raises_for_are_not_tried() -> None:
    sizes = set[int]()

    def mine(x: Any) -> Any:
        sizes.add(x.shape[-1])
        return picky(x)

    checked(mine, picky, capabilities=Capabilities())
    assert min(sizes) == 2


def first_two(x: Any) -> Any:
    return x[..., :2].clone()


def test_what_a_reference_takes_a_part_of_is_long_enough_for_it() -> None:
    """A row of one element has no part of two: torch returns a shorter one."""
    assert dict(read(first_two, GivenData("x=... n")).derived.op.least) == {"n": 2}
    checked(lambda x: first_two(x), first_two, shapes="x=... n")


def spread(x: Any) -> Any:
    """It is of one element that torch says it needs two, whichever dimension has them."""
    return torch.nn.functional.instance_norm(x)


def spread_of_windows(x: Any, k: Any) -> Any:
    return spread(torch.nn.functional.conv2d(x, k))


@pytest.mark.whole
def test_dimensions_that_need_two_elements_together_have_them() -> None:
    found = read(spread, GivenData("x=b c h w"))
    op = found.derived.op
    assert dict(op.least) == {"h w": 2}
    assert found.derived.said.endswith("; h * w < 2 left out: the reference raises there, or returns another shape")
    assert '    least={"h w": 2},' in found.derived.module
    windows = read(spread_of_windows, GivenData("x=b c h w, k=o c i j", fixed={"i": 3, "j": 3})).derived.op
    assert dict(windows.least) == {"h_out w_out": 2}
    sizes = set[tuple[int, int]]()

    def mine(x: Any) -> Any:
        sizes.add((min(x.shape[2:]), max(x.shape[2:])))
        return (x - x.mean((2, 3), keepdim=True)) * (x.var((2, 3), correction=0, keepdim=True) + 1e-5).rsqrt()

    fuzz.check(mine, reference=spread, shapes="x=b c h w", max_cases=12, seed=1)
    assert (1, 1) not in sizes
    assert any(shorter == 1 for shorter, _ in sizes)


def test_a_reference_in_place_of_an_op_is_refused_beside_one() -> None:
    with pytest.raises(fuzz.CheckError, match="against an op or a reference, not both"):
        checked(softmax, softmax, op="softmax")
    with pytest.raises(fuzz.CheckError, match=r"aten.median \(test_check_reference.py line \d+\) has no formula"):
        checked(softmax, lambda x: x.median(-1).values)


def test_an_op_of_a_pack_is_made_of_a_reference() -> None:
    """With what no function says beside it."""
    op = op_of(rms_norm, {"x": "... n", "w": "n"}, name="norm", fields={"aliases": (("y", "x"),)})
    assert (op.name, op.aliases, op.formula.__module__) == ("norm", (("y", "x"),), rms_norm.__module__)


_PROGRAM = """
import fuzz, torch

def softmax(x):
    return torch.softmax(x, -1)

def mine(rows):
    e = torch.exp(rows - rows.amax(-1, keepdim=True))
    return e / e[..., :4].sum(-1, keepdim=True)

fuzz.check(mine, reference=softmax)
"""


def test_a_case_is_replayed_from_the_file_of_its_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference is read again there, and the kernel is called by its own names, in a program by itself too."""
    monkeypatch.chdir(tmp_path)
    Path("program.py").write_text(_PROGRAM)
    signed = {"check": {"program": "program.py"}, "found": {"target": "torch-mine@cpu"}}
    Path("case.json").write_text(json.dumps(signed))
    found = retrieved(["program.py"], Path("case.json"))
    assert found.pack.kernels[0].op == "reference_softmax"
    assert found.here is not None
    assert found.here.function.called == {"x": "rows"}
    [target] = expand(found.pack.kernels)
    with found.as_program(target) as alone:
        space: dict[str, Any] = {}
        exec(alone.kernel.source.read_text(), space)
    [row] = space["by_name"](x=torch.zeros(1, 5)).tolist()
    assert row == [0.25] * 5


@pytest.mark.whole
def test_a_reference_in_numpy_judges_kernels_in_either() -> None:
    def norm(x: Any, w: Any) -> Any:
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6) * w

    def wrong(x: Any, w: Any) -> Any:
        return x / (np.sqrt(np.mean(x * x, axis=-1, keepdims=True)) + 1e-6) * w

    for right, arrays in ((rms_norm, "torch"), (norm, "numpy")):
        checked(right, norm, shapes="x=... n, w=n", arrays=arrays)
    with pytest.raises(fuzz.CheckFailed):
        checked(wrong, norm, shapes="x=... n, w=n", arrays="numpy")


def _centred(x: Any) -> Any:
    mean = x.mean(-1, keepdim=True)
    return x - mean, mean


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (lambda x: _centred(x)[0], "it returned one Tensor: return (y0, mean), or a dict with these names, or "),
        (lambda x: (*_centred(x), x), "it returned a tuple of 3: return (y0, mean), "),
        (lambda x: {"centred": x}, "it returned a dict of 1, ['centred']: return (y0, mean), "),
    ],
)
def test_other_outputs_than_the_reference_has_are_a_misuse(kernel: Callable[..., Any], said: str) -> None:
    """Neither is it a crash, nor is there anything to shrink."""
    with pytest.raises(fuzz.CheckError) as caught:
        checked(kernel, _centred, shapes="x=... n")
    assert said in str(caught.value)
    checked(lambda x: [*_centred(x)], _centred, shapes="x=... n")


def test_a_wrong_name_is_one_line_without_frames_of_ours() -> None:
    with pytest.raises(fuzz.CheckError) as caught:
        checked(softmax, softmax, shapes={"rows": "... n"})
    assert str(caught.value) == "reference softmax cannot be read: it has no parameter 'rows': it has x"
    assert (caught.value.__cause__, caught.value.__suppress_context__) == (None, True)
    ours = [each.frame for each in caught.traceback if "/fuzz/tasks/" in str(each.path)]
    assert len(ours) > 1
    assert all(each.f_globals.get("__tracebackhide__") is told for each in ours), "pytest hides them"
    with pytest.raises(fuzz.CheckError, match=r"^_short: it has no parameter|^_short: parameter 'gain'"):
        checked(_short, softmax, shapes={"x": "... n"})


_MISUSED = """
import fuzz

def reference(x):
    return x.nosuch()

fuzz.check(lambda x: x, reference=reference, shapes="x=b n")
"""


def test_a_program_of_its_own_ends_with_the_report_and_no_frames_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(fuzz.CheckError) as caught:
        exec(compile(_MISUSED, "program.py", "exec"), {})
    program_ends(sys.__excepthook__, caught.type, caught.value, caught.tb)  # typer replaces the hook in force
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if line.startswith("  File ")] == [
        '  File "program.py", line 5, in reference', '  File "program.py", line 7, in <module>',
    ]  # fmt: skip
    assert lines[-1].startswith("fuzz.CheckError: reference cannot be read: it takes no x[5, 11]: Attribute")


def test_a_kept_case_of_another_reference_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """The kernel may be right by what the reference says now."""

    def scaled(x: Any) -> Any:
        return x * 2.0

    def other(x: Any) -> Any:
        return x * 3.0

    other.__name__ = "scaled"
    with fails("scaled") as caught:
        checked(other, scaled, shapes="x=... n")
    [path] = GIVEN.options.output.glob("scaled-*.json")
    assert "of another scaled" not in str(caught.value)
    capsys.readouterr()
    checked(other, other, shapes="x=... n", cases=[path])
    said = capsys.readouterr().err
    assert re.search(r"note +\d+ kept cases? of another scaled: it or its reference has changed", said), said


def test_extents_of_examples_are_kept_where_a_reference_takes_no_others() -> None:
    def halves(x: Any) -> Any:
        return x.reshape(x.shape[0], 2, 8).sum(1)

    found = read(halves, GivenData(example_inputs=[torch.randn(4, 16)]))
    assert dict(found.derived.op.fixed) == {"n": 16}
    with pytest.raises(fuzz.CheckError, match=r"it takes no x.*; give example_inputs: where it takes no other extents"):
        read(halves, GivenData())


def test_a_layer_whose_weights_are_no_arguments_is_refused_with_the_remedy() -> None:
    layer = torch.nn.Linear(32, 16)
    with pytest.raises(fuzz.CheckError) as caught:
        read(layer, GivenData(example_inputs=[torch.randn(4, 32)]))
    said = str(caught.value)
    assert said.startswith("reference Linear cannot be read: a constant of several elements")
    [_, line] = said.split("give them to both functions, as ")
    remedy = eval(line.partition("; oracle=")[0], {"torch": torch, "layer": layer})
    assert read(remedy, GivenData("input=... n, weight=m n, bias=m")).derived.op.outputs[0].dims == "... m"


def _first_terms(x: Any) -> Any:
    return x[..., : min(x.shape[-1], 64)].exp().sum(-1)


def _clamped(x: Any) -> Any:
    return x.clamp(-15, 15) * 2 if x.shape[-1] > 50 else x * 2


def test_a_reference_that_does_something_else_at_longer_rows_is_not_read() -> None:
    """The calls that are read have rows of at most some thirty elements."""
    with pytest.raises(fuzz.CheckError, match="does something else at larger extents: "):
        read(_first_terms, GivenData())


def test_a_formula_that_stops_being_the_reference_accuses_nobody() -> None:
    """Numbers beyond 15 tell, which only failing cases have."""
    with pytest.raises(fuzz.CheckError, match="does something else at larger extents than where it was read"):
        fuzz.check(_clamped, reference=_clamped, max_cases=24, seed=1)
    x = torch.randn(4, 100) * 100
    with pytest.raises(fuzz.CheckError, match="does something else at these extents"):
        fuzz.assert_right(_clamped(x), _clamped, x)
    with pytest.raises(fuzz.CheckError, match="does something else at these extents"):
        fuzz.bound(_clamped, x)
    fuzz.assert_right(_clamped(x[:, :50]), _clamped, x[:, :50])
    with pytest.raises(fuzz.CheckFailed):
        fuzz.assert_right(_clamped(x[:, :50]) * 1.001, _clamped, x[:, :50])


def test_what_rounding_in_float64_explains_is_no_other_reference() -> None:
    """The squares are 1e20, and their difference is lost: a wrong kernel must not be excused by that."""

    def variance(x: Any) -> Any:
        return (x * x).mean(-1) - x.mean(-1) ** 2

    found = read(variance, GivenData()).derived
    assert not found.misread({"x": 1e10 + np.random.default_rng(1).standard_normal((2, 60))})


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_the_inputs_of_a_failing_case_are_compared_in_any_dtype(dtype: str) -> None:
    found = read(_clamped, GivenData()).derived
    assert "it returns y[0, 0] = 30, and the formula 40" in found.misread({"x": store(np.full((1, 60), 20.0), dtype)})
    assert not found.misread({"x": store(np.full((1, 60), 10.0), dtype)})


def test_a_kernel_that_crashes_is_told_whatever_its_reference_does() -> None:
    def crashing(x: Any) -> Any:
        if x.shape[-1] > 50:
            raise RuntimeError("no such size")
        return _clamped(x)

    with pytest.raises(fuzz.CheckFailed, match="crashes"):
        fuzz.check(crashing, reference=_clamped, max_cases=24, seed=1)
