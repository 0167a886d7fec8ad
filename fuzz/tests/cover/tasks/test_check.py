"""What a check runs, and what it remembers."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis.database import InMemoryExampleDatabase

import fuzz
from fuzz.core.transport.python.kernel import Raised
from fuzz.explain.explanation import Explanation
from fuzz.findings.casefile import load
from fuzz.tasks.check.function import declared
from fuzz.tasks.check.request import Calling, Promises
from fuzz.tasks.check.setup import GIVEN, Options, check_setup
from fuzz.tests.common.told import fails
from fuzz.tests.conftest import CHECKOUT, copy_headers, edited
from oracles.tests.common.whole import quarter

_DROPS_EPS = edited("reciprocal_rms(total, n, eps)", "reciprocal_rms(total, n, 0.0f * eps)")
_O2 = ("c-*@native:gcc-O2",)


@pytest.fixture
def wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> fuzz.CKernel:
    """A kernel that drops eps."""
    monkeypatch.setattr(GIVEN, "options", Options(output=tmp_path / "findings", explain_s=0.0))
    copy_headers(tmp_path)
    (tmp_path / "wrong.c").write_text(_DROPS_EPS)
    return fuzz.CKernel("wrong", "rms_norm", tmp_path / "wrong.c")


@pytest.fixture
def profile() -> Iterator[settings]:
    """A profile of Hypothesis that a suite has loaded."""
    before = settings.get_current_profile_name()
    loaded = settings(max_examples=7, derandomize=False, database=InMemoryExampleDatabase())
    settings.register_profile("of a suite", loaded)
    settings.load_profile("of a suite")
    yield loaded
    settings.load_profile(before)


def test_the_profile_gives_what_neither_the_call_nor_the_command_line_says(
    profile: settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = check_setup("label", None, None, None)
    assert (free.max_cases, free.max_time, free.database) == (7, None, profile.database)
    assert (check_setup("label", 3, 9, None).seed, check_setup("label", 3, 9, None).max_cases) == (3, 9)
    monkeypatch.setattr(GIVEN, "options", Options(max_time=2.0, seed=11))
    asked = check_setup("label", 3, 9, None)
    assert (asked.seed, asked.max_cases, asked.max_time) == (11, None, 2.0)
    monkeypatch.setattr(GIVEN, "options", Options())
    settings.register_profile("of a suite", profile, derandomize=True, database=None)
    settings.load_profile("of a suite")
    assert check_setup("label", None, None, None).database is None


def test_a_check_has_the_same_seed_each_time_and_another_one_when_it_is_asked_for(
    profile: settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the profile says of derandomizing: what failed fails again."""
    assert check_setup("label", None, None, None) == check_setup("label", None, None, None)
    assert check_setup("label", None, None, None).seed != check_setup("other", None, None, None).seed
    assert check_setup("label", "random", None, None).seed != check_setup("label", "random", None, None).seed
    monkeypatch.setattr(GIVEN, "options", Options(seed="random"))
    assert check_setup("label", 3, None, None).seed != check_setup("label", 3, None, None).seed


def test_outside_a_test_a_function_of_another_file_has_cases_of_its_own(
    profile: settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two programs with a function `mine` replayed each other's cases, and the search was left out."""
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    one, two = (check_setup("numpy-mine@cpu", None, None, None, source) for source in ("one.py", "two.py"))
    assert one.key != two.key
    assert one.seed == two.seed


@pytest.mark.whole
def test_what_failed_is_run_first_next_time_and_forgotten_when_it_passes(
    profile: settings, wrong: fuzz.CKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(fuzz.CheckFailed, match="FAIL  wrong  wrong ") as first:
        fuzz.check(wrong, targets=_O2, max_cases=quarter(200), seed=1)
    assert "the last time" not in str(first.value)
    key = check_setup("c-wrong@native:gcc-O2", None, None, None).key
    assert profile.database is not None
    assert len(list(profile.database.fetch(key))) >= 1
    # Not one case is drawn: it is the remembered one that fails.
    with pytest.raises(
        fuzz.CheckFailed, match=r"FAIL  wrong  wrong (.*\n)*.* one that failed the last time: these are run"
    ):
        fuzz.check(wrong, targets=_O2, max_cases=0)
    wrong.source.write_text((CHECKOUT / "kernels" / "rms_norm" / "c" / "generic.c").read_text())
    monkeypatch.setattr(GIVEN, "passed", [])
    fuzz.check(wrong, targets=_O2, max_cases=8)
    assert re.search(r"\d+ cases? that failed before among them, ", GIVEN.passed[0])
    assert list(profile.database.fetch(key)) == []


@pytest.mark.whole
def test_what_is_remembered_is_the_shrunk_case(
    profile: settings, wrong: fuzz.CKernel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(GIVEN, "options", Options(output=tmp_path / "findings", explain_s=600.0, verbose=True))
    wrong.source.write_text(edited("y[i] = x[i] * rstd;", "y[i] = x[i] * rstd * (n % 32 == 31 ? 1.5f : 1.0f);"))
    with fails("wrong") as failed:
        fuzz.check(wrong, targets=_O2, max_cases=quarter(200), seed=1)
    [told] = failed.value.failures
    assert isinstance(told, Explanation)
    assert told.attribution is not None
    assert told.attribution.cause == "the kernel's source"
    key = check_setup("c-wrong@native:gcc-O2", None, None, None).key
    assert profile.database is not None
    [kept] = profile.database.fetch(key)
    assert json.loads(kept)["inputs"]["x"]["shape"] == [1, 31]
    [file] = (tmp_path / "findings").iterdir()
    _, found = load(file)
    assert found is not None
    assert found.explanation == told
    assert found.explanation.rule is not None
    assert [str(each.cause) for each in found.explanation.rule.alternatives] == ["n mod 32 = 31"]


def test_a_check_in_which_nothing_ran_fails(profile: settings, wrong: fuzz.CKernel) -> None:
    with pytest.raises(fuzz.CheckFailed, match="NOTHING RAN: c-wrong@native:gcc-O2: none of 0 cases fits"):
        fuzz.check(wrong, targets=_O2, max_cases=0)
    with pytest.raises(fuzz.CheckFailed, match=r"NOTHING RAN: no target matches 'c-\*@qemu'; there are c-wrong@native"):
        fuzz.check(wrong, targets=("c-*@qemu",))


@pytest.mark.parametrize(
    ("function", "options", "expected"),
    [
        (
            lambda x: x,
            {},
            "it has no parameter 'eps': rms_norm has x, weight, y, rstd, eps, weight_offset, axis; wrap it",
        ),
        (
            lambda x, eps: x,
            {"op": "rms_norm_backward"},
            "it has no parameter 'dy': rms_norm_backward has x, dy, weight",
        ),
        (lambda x, eps: x, {"returns": ("z",)}, "returns: rms_norm has no output 'z': y, rstd"),
        (lambda x, eps: x, {"capabilities": fuzz.Capabilities(axis="any")}, "'any' needs a parameter 'axis'"),
        (dict.get, {}, "parameter 'self' is nothing that it can be called with"),
        (
            fuzz.CKernel("k", "rms_norm", Path("k.c")),
            {"op": "fused_add_rms_norm"},
            "k is declared as a kernel of rms_norm",
        ),
    ],
)
def test_a_check_that_cannot_be_made_says_what_to_do(
    function: object, options: dict[str, object], expected: str
) -> None:
    with pytest.raises(fuzz.CheckError) as error:
        fuzz.check(function, **{"op": "rms_norm", **options})  # type: ignore[arg-type]
    assert expected in str(error.value)


_WIDE = fuzz.Contract(compute="f64", sums={"n": fuzz.AnyOrder()})


def _normalised(x: Any, eps: float) -> Any:
    wide = x.astype("f8")
    return (wide / np.sqrt((wide * wide).mean(-1, keepdims=True) + eps)).astype(x.dtype)


def test_a_function_may_return_what_it_wrote_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profile: settings
) -> None:
    monkeypatch.setattr(GIVEN, "options", Options(output=tmp_path / "findings", explain_s=0.0))
    able = fuzz.Capabilities(strides="any")

    def writes(x: Any, eps: float, y: Any) -> Any:
        y[...] = _normalised(x, eps)
        return y

    asked = {"op": "rms_norm", "arrays": "numpy", "capabilities": able, "contract": _WIDE, "max_cases": 40}
    fuzz.check(writes, **asked)  # type: ignore[arg-type]
    with pytest.raises(fuzz.CheckError, match="it takes y and also returned a tensor for it: return nothing, or drop"):
        fuzz.check(lambda x, eps, y: writes(x, eps, y) + 1, **asked)  # type: ignore[arg-type]


def test_a_call_that_can_never_work_is_said_at_once_with_the_line_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profile: settings
) -> None:
    monkeypatch.setattr(GIVEN, "options", Options(output=tmp_path / "findings"))

    @functools.wraps(_normalised)
    def by_place(*given: Any) -> Any:
        return _normalised(*given)

    def launches(x: Any, eps: float) -> Any:
        raise RuntimeError("0 active drivers ([]). There should only be one.")

    for function, said in (
        (by_place, r"wrap it: lambda x, eps: mine\(x, eps\)$"),
        (launches, "set TRITON_INTERPRET=1 "),
    ):
        with pytest.raises(fuzz.CheckError, match=said):
            fuzz.check(function, op="rms_norm", arrays="numpy", contract=_WIDE, max_cases=3)
    assert not (tmp_path / "findings").exists() or not [*(tmp_path / "findings").glob("*.json")]


def test_what_triton_interprets_is_given_small_cases_alone() -> None:
    from triton.runtime import interpreter

    rows, launched = list[int](), interpreter.InterpretedFunction(_normalised)

    def mine(x: Any, eps: float) -> Any:
        rows.append(x.size // max(1, x.shape[-1]))
        return launched.fn(x, eps)

    fuzz.check(mine, op="rms_norm", arrays="numpy", contract=_WIDE, max_cases=60, seed=1)
    assert 1 < max(rows) <= 12


def _refuses_none(x: Any, eps: float) -> Any:
    if x.size == 0:
        raise RuntimeError("no elements")
    return _normalised(x, eps)


def _refuses_odd(x: Any, eps: float) -> Any:
    assert x.shape[-1] % 8 == 0
    return _normalised(x, eps)


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("function", "said"),
    [
        (
            _refuses_none,
            r"declare       nothing but .*, declare Capabilities\(empty=False\)$",
        ),
        (
            _refuses_odd,
            r"declare       n is no multiple of 8 .*, declare Capabilities\(multiple_of=\{'n': 8\}\)$",
        ),
    ],
)
def test_what_a_kernel_may_be_meant_to_declare_is_said_where_it_refuses_just_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profile: settings, function: Any, said: str
) -> None:
    monkeypatch.setattr(GIVEN, "options", Options(output=tmp_path / "findings", explain_s=60.0, verbose=True))
    with pytest.raises(fuzz.CheckFailed, match=f"(?m)^  {said}"):
        fuzz.check(function, op="rms_norm", arrays="numpy", contract=_WIDE, max_cases=quarter(100), seed=1)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_what_a_library_raises_is_no_rejection_of_the_function(n: int) -> None:
    def choosy(x: Any, eps: float) -> Any:
        if len(x) == 3:
            raise ValueError("not three")
        return x + np.zeros(2, x.dtype)

    _, function = declared(choosy, "rms_norm", Promises(laws=()), Calling(arrays="numpy"))
    found = function.call({"x": np.zeros(n, "f4")}, {"eps": 0.0})
    assert [isinstance(found, Raised), isinstance(found, Raised) and found.rejected] == [n != 2, n == 3]


def test_a_check_in_no_test_says_at_once_and_once_what_it_did_not_exercise(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], profile: settings
) -> None:
    monkeypatch.setattr(GIVEN, "undeclared", {})
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    monkeypatch.setattr(GIVEN, "passed", [])
    for _ in range(2):
        fuzz.check(_normalised, op="rms_norm", arrays="numpy", contract=_WIDE, max_cases=3)
    said = capsys.readouterr()
    assert said.out == ""
    first, *lines = said.err.splitlines()
    passed, never, facts = lines[::3], lines[1::3], lines[2::3]
    assert never == ["  never ran: larger cases"] * 2
    assert [each.startswith("  held to what numpy@cpu documents: ") for each in facts] == [True, True]
    assert "_normalised does not declare it: weight, rstd (takes); f16, bf16, f64 " in first
    ran = (
        r"_normalised passed: 3 cases on numpy-_normalised@cpu in \d+\.\d s, extents in f32 up to \d+ "
        r"\(rows \d+, elements \d+\), seed (\d+)"
    )
    assert [bool(re.fullmatch(ran, line)) for line in passed] == [True, True]
    assert GIVEN.passed == [f"{one}\n{other}" for one, other in zip(passed, never, strict=True)]


class _Scaled:
    """A module, as far as a check sees."""

    training = True
    __name__ = "scaled"

    def __call__(self, x: Any) -> Any:
        return x * 2.0


def _doubled(x: Any) -> Any:
    return x + x


def test_a_check_that_passed_says_how_large_its_cases_were_and_what_never_ran(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    shapes: list[tuple[int, ...]] = []

    def doubled(x: Any) -> Any:
        shapes.append(tuple(x.shape))
        return x + x

    fuzz.check(doubled, reference=_doubled, shapes={"x": "b n"}, max_cases=100, seed=1)
    said = " ".join(capsys.readouterr().err.split())
    assert "seed 1 never ran: larger cases, autograd" in said, "two cases of the last ones have two threads"
    found = re.search(r"extents in f32 up to ([\d,]+) \(rows ([\d,]+), elements ([\d,]+)\)", said)
    assert found is not None
    extent, rows, elements = (int(each.replace(",", "")) for each in found.groups())
    assert max(map(max, shapes)) == extent
    assert max(b for b, _ in shapes) == rows
    assert max(b * n for b, n in shapes) == elements
    fuzz.check(_Scaled(), reference=_doubled, shapes={"x": "b n"}, max_cases=3, arrays="torch")
    assert "never ran: larger cases, several threads, autograd, evaluation mode" in capsys.readouterr().err


def test_a_kernel_is_not_accused_where_tritons_interpreter_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton 3.6 with NumPy 2.4: each program with a loop ends in a TypeError, whatever its author wrote."""
    program = type("JITFunction", (), {"__module__": "triton.runtime.jit"})()
    attested = "fuzz.core.transport.python.attest"
    monkeypatch.setattr(f"{attested}.is_interpreted", lambda functions: program in functions)
    monkeypatch.setattr(f"{attested}.loop_fault_here", lambda: "Triton's interpreter cannot loop with NumPy")
    module = ModuleType("mine")
    module.program = program  # type: ignore[attr-defined]
    for name, near in {"program": {"program": program}, "mine.program": {"mine": module}}.items():
        kernel = eval(f"lambda x: x * 2 if {name} else x", near)
        with pytest.raises(fuzz.CheckError, match="cannot loop with NumPy"):
            fuzz.check(kernel, reference=lambda x: x * 2, max_cases=4)
