"""Who agrees is counted by source and library: what kernels of one file say is said once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.adapters.python_kernel import PythonKernel
from fuzz.core.adapters.registry import expand
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import Judgement
from fuzz.explain.attribute.attribution import attributed, witnesses
from fuzz.tests.common.hunting import GENERIC


def _in_c(folder: Path, name: str, source: str, text: str = "/* nothing */") -> Kernel:
    assert isinstance(GENERIC, CKernel)
    path = folder / source
    path.write_text(text)
    return replace(GENERIC, name=name, source=path)


def _in_python(folder: Path, name: str, *packages: str) -> Kernel:
    return PythonKernel(name, "rms_norm", folder / f"{name}.py", "numpy", packages=packages)


def _said(kernels: list[Kernel], failing: set[str]) -> str:
    targets = expand(kernels)
    judgements = {
        target.id: Judgement(
            target.id, "digest", Verdict.FAIL_NUMERIC if target.kernel.name in failing else Verdict.PASS
        )
        for target in targets
    }
    found = attributed(targets[0], targets, judgements)
    return f"{found.cause}: {found.evidence}"


def test_options_of_one_file_do_not_accuse_the_oracle_and_three_sources_do(tmp_path: Path) -> None:
    options = [_in_c(tmp_path, name, "one.c") for name in ("plain", "fast", "small")]
    every = {kernel.name for kernel in options}
    assert _said(options, every).startswith("the kernel's source: plain fails on all")
    assert _said(options, every).endswith("; 2 other kernels of the same source or library fail too")
    others = [_in_c(tmp_path, "two", "two.c"), _in_c(tmp_path, "three", "three.c")]
    said = _said([*options, *others], {*every, "two", "three"})
    assert said.startswith("the oracle or the case: all 5 kernels of 3 sources or libraries that take the case fail")
    said = _said([options[0], *others], {"plain", "two", "three"})
    assert said.startswith("the oracle or the case: all 3 kernels that take the case fail on it, plain among them")


def test_who_agrees_is_counted_by_source(tmp_path: Path) -> None:
    options = [_in_c(tmp_path, name, "one.c") for name in ("plain", "fast")]
    others = [_in_c(tmp_path, name, "two.c") for name in ("other", "another")]
    assert _said(options + others, {"plain", "fast"}).endswith(
        "; another kernel of the same source or library fails too"
        "; 2 other kernels of one source or library agree with the oracle"
    )
    assert _said([*options, others[0]], {"plain"}).endswith(
        "; another kernel of the same source or library agrees with the oracle; another kernel agrees with the oracle"
    )


def test_another_source_that_fails_too_is_not_left_out(tmp_path: Path) -> None:
    """Two sources may have one author, so they do not accuse the oracle; nor is one alone to blame."""
    kernels = [_in_c(tmp_path, name, f"{name}.c") for name in ("one", "two", "three")]
    said = _said(kernels[:2], {"one", "two"})
    assert said.startswith("the kernel's source: one fails on all ")
    assert said.endswith(
        "; two, of another source or library, fails too: each has a bug, or the op says what nobody meant"
    )
    said = _said(kernels, {"one", "two"})
    assert said.endswith(
        "; two, of another source or library, fails too: each has a bug, or the op says what nobody meant"
        "; another kernel agrees with the oracle"
    )


@pytest.mark.parametrize("order", [1, -1])
def test_what_includes_a_source_or_needs_its_library_is_the_same_witness(tmp_path: Path, order: int) -> None:
    one = _in_c(tmp_path, "one", "one.c")
    by = _in_c(tmp_path, "by", "by.c", '#include "one.c"\n')
    keras = [_in_python(tmp_path, f"keras{number}", "keras") for number in (1, 2)]
    alone = _in_python(tmp_path, "alone")
    found = witnesses([one, by, *keras, alone][::order])
    assert {*found} == {frozenset({"one", "by"}), frozenset({"keras1", "keras2"}), frozenset({"alone"})}


def test_what_only_some_of_the_failing_targets_have_is_not_said_of_all() -> None:
    """One fails natively, one under an emulator that is set so: no one thing tells both from the third."""
    (target,) = [each for each in expand([GENERIC]) if each.id.endswith("native:gcc-O2")]
    traits: list[tuple[tuple[str, str | int], ...]] = [
        (("processor", "native"),),
        (("processor", "emulated"), ("vector length", 128)),
        (("processor", "emulated"), ("vector length", 256)),
    ]
    targets = [
        replace(target, name=replace(target.name, settings=(("number", str(number)),)), traits=each)
        for number, each in enumerate(traits)
    ]
    judgements = {
        each.id: Judgement(each.id, "digest", verdict)
        for each, verdict in zip(targets, [Verdict.FAIL_NUMERIC] * 2 + [Verdict.PASS], strict=True)
    }
    found = attributed(targets[0], targets, judgements)
    said = f"{found.cause}: {found.evidence}"
    assert said.startswith("some targets: generic fails on 2 of 3 targets: "), said
    assert "those with" not in said
