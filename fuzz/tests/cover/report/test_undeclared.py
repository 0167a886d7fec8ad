"""A run ends with what it did not exercise because no kernel declares it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.adapters.pack import built_in, load
from fuzz.core.base.capability import Capabilities
from fuzz.report.totals import not_exercised, undeclared_by_op
from fuzz.tests.conftest import GENERIC, Cli


def _kernel(name: str, **able: object) -> CKernel:
    return CKernel(name, "rms_norm", Path("k.c"), capabilities=Capabilities(**able))  # type: ignore[arg-type]


_NEITHER = (
    "rstd (takes); bf16, f64 (dtypes); any but the last (axis); an output over a part of an input (overlap); "
    "invalid input, to be rejected (outside)"
)


def test_what_is_forgotten_is_named_with_the_field_that_declares_it() -> None:
    [line] = not_exercised(undeclared_by_op([_kernel("mine")]))
    assert line.startswith(
        "not exercised, as mine does not declare it: weight, rstd (takes); f16, bf16, f64 (dtypes); "
    )
    assert "any but contiguous (strides)" in line
    assert "in place (aliases)" in line
    assert "weight of" not in line, "what follows from the weight is not said without one"


def test_what_some_kernels_declare_is_told_of_the_others_together() -> None:
    able = {"dtypes": ("f32", "f16"), "strides": "any", "aliases": (("y", "x"),)}
    full = {
        **able,
        "takes": ("weight",),
        "mixed": (("weight", ("x", "f64")),),
        "params": ("weight_offset",),
        "stacked": ("weight",),
    }
    kernels = [_kernel("whole", **full), *(_kernel(name, **able) for name in ("one", "two", "three"))]
    assert not_exercised(undeclared_by_op(kernels)) == [
        f"not exercised, as no kernel of rms_norm declares it: {_NEITHER}",
        "not exercised of one and 2 more: weight (takes)",
    ]


def test_inputs_of_places_are_named_whose_numbers_nobody_checks() -> None:
    places = "what is no place in index (checks)"
    for checks in ((), ("index",)):
        kernel = CKernel("k", "embedding", Path("k.c"), capabilities=Capabilities(checks=checks))
        [line] = not_exercised(undeclared_by_op([kernel]))
        assert (places in line) == (not checks)


def test_a_kernel_that_declares_everything_leaves_nothing_to_say() -> None:
    able = Capabilities(
        dtypes=("f32", "f16", "bf16", "f64"), axis="any", strides="any", aliases=(("y", "x"),), overlap=(("y", "x"),),
        takes=("weight", "rstd"), mixed=(("weight", ("x", "f32")),), params=("weight_offset",), stacked=("weight",),
        outside="rejects", max={"n": 64},
    )  # fmt: skip
    kernel = CKernel("k", "rms_norm", Path("k.c"), capabilities=able)
    assert not_exercised(undeclared_by_op([kernel])) == []


def test_many_kernels_are_a_few_lines() -> None:
    by_op = undeclared_by_op(load(built_in()).kernels)
    lines = not_exercised(by_op)
    assert len(lines) <= len(by_op) + 4
    assert lines[-1].endswith("more kernels declare less than others of their op do")


def test_a_run_and_a_gate_end_with_it(cli_here: Cli, planted: Callable[..., Path], tmp_path: Path) -> None:
    corpora = tmp_path / "corpora"
    (corpora / "historical").mkdir(parents=True)
    line = "not exercised, as planted does not declare it: weight, rstd (takes); bf16, f64 (dtypes); "
    target = (
        "--pack",
        str(planted(GENERIC)),
        "--target",
        "*@native:gcc-O2",
        "--json",
        "out.jsonl",
        "--max-cases",
        "20",
    )
    for words in (["run", "--seed", "1"], ["gate", "--corpora", str(corpora)]):
        done = cli_here(*words, *target)
        assert done.returncode == 0, done.stderr
        assert [each.startswith(line) for each in done.stdout.splitlines()].count(True) == 1, done.stdout
        summary = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[-1])
        assert summary["undeclared"]["rms_norm"]["planted"]["takes"] == ["weight", "rstd"]
