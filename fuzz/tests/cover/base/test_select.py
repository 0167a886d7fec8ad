"""Choosing targets by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.campaign.starting import select_targets
from fuzz.core.adapters.python_kernel import PythonKernel
from fuzz.core.base.selection import SelectionError, globs, keyword, matches_any

SVE = "c-sve@qemu:vl=256,gcc-O0"


def test_commas_separate_globs_only_before_another_target() -> None:
    assert globs([f"{SVE},c-neon@*"]) == (SVE, "c-neon@*")
    assert globs(["triton-a@interpret,torch-b@cpu", "c-*"]) == ("triton-a@interpret", "torch-b@cpu", "c-*")


def test_a_language_and_a_place_are_short_for_all_its_targets() -> None:
    assert globs(["triton@interpret,torch@c*,c@native"]) == ("triton-*@interpret", "torch-*@c*", "c-*@native:*")
    assert matches_any("c-avx2@native:gcc-O2", globs(["c@native"]))


def test_a_target_name_matches_itself_and_its_globs() -> None:
    for pattern in (SVE, "c-sve@*", "*vl=256*", "*"):
        assert matches_any(SVE, [pattern])
    assert not matches_any(SVE, ["c-neon@*", "sve"])


def test_ops_are_globs_with_commas_between() -> None:
    kernels = [PythonKernel(op, op, Path("k.py"), "numpy") for op in ("softmax", "row_sum", "row_max")]
    found = select_targets(kernels, "softmax,*_max")
    assert [target.kernel.op for target in found] == ["softmax", "row_max"]


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ("sve", True),
        ("neon", False),
        ("sve and O0", True),
        ("sve and not O0", False),
        ("neon or sve", True),
        ("not (neon or O2)", True),
        ("neon or sve and O2", False),
        ("not not sve", True),
    ],
)
def test_keyword_expressions(expression: str, matches: bool) -> None:
    assert keyword(expression)(SVE) is matches


@pytest.mark.parametrize("expression", ["and", "sve and", "(sve", "sve)", "not", "or sve", "sve O0"])
def test_a_broken_expression_is_said_to_be_broken(expression: str) -> None:
    with pytest.raises(SelectionError, match="-k"):
        keyword(expression)
