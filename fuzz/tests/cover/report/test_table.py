"""The table at the end of a run can be read at 80 columns, whatever ran."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from fuzz.findings.tally import Tally, TargetTally, WorstPass
from fuzz.report.console import results
from fuzz.report.totals import bar, kernel_lines, print_kernels

_DTYPES = ("f64", "f32", "f16", "bf16", "e4m3fn", "e5m2", "int64", "int8")


def _tally() -> Tally:
    """Two kernels of three targets each, in every dtype; the second one fails."""
    tally = Tally()
    for kernel, failing in (("a-kernel-with-a-name-of-thirty-", 0), ("wrong", 12345)):
        for place in ("c-{}@native:gcc-O2", "c-{}@qemu:vl=2048,gcc-O0", "c-{}@ssh:far"):
            name = place.format(kernel)
            worst = {dtype: WorstPass(0.4 if dtype == "f64" else 0.99, "1x1x1x912 uniform") for dtype in _DTYPES}
            tally.targets[name] = TargetTally(name, kernel, 1234567, failing, worst=worst)
        tally.targets[name].judged, tally.targets[name].worst = 0, {}
    return tally


def _printed(*, columns: int, encoding: str = "utf-8", verbose: bool = False) -> list[str]:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    tally = _tally()
    print_kernels(Console(file=file, width=columns), kernel_lines(tally), tally if verbose else None)
    file.seek(0)
    return file.read().splitlines()


def test_a_kernel_is_one_line_of_80_columns_whatever_its_targets_and_dtypes() -> None:
    head, *lines, note = _printed(columns=80)
    assert head.split() == ["kernel", "targets", "runs", "failing", "largest", "error"]
    assert [line.split() for line in lines] == [
        ["wrong", "2", "of", "3", "2,469,134", "37,035", "████······", "40%", "f64"],
        ["a-kernel-with-a-name-of-thir..", "2", "of", "3", "2,469,134", "0", "████······", "40%", "f64"],
    ]
    assert [len(line) for line in lines] == [80, 80]
    assert len(note) <= 80


def test_each_target_and_dtype_is_there_when_asked_for() -> None:
    lines = _printed(columns=120, verbose=True)
    assert len(lines) == 1 + 2 * (1 + 2 * len(_DTYPES) + 1) + 1
    assert sum("NOT_RUN" in line for line in lines) == 2
    assert all(len(line) <= 120 for line in lines)


@pytest.mark.parametrize("columns", [40, 60])
def test_a_narrow_terminal_gets_no_wider_lines(columns: int) -> None:
    *lines, _ = _printed(columns=columns)
    assert len(lines) == 3
    assert all(len(line) <= columns for line in lines)
    assert columns < 60 or lines[2].startswith("a-kernel..   2 of 3")


def test_a_bar_reads_like_a_level_and_never_like_a_failure() -> None:
    assert bar(0.0) == "··········   0%"
    assert bar(0.43) == "████······  43%"
    assert bar(1.0) == bar(1.0000001) == "██████████ 100%"
    assert bar(0.43, ascii_only=True) == "####......  43%"
    assert _printed(columns=80, encoding="ascii")[1].endswith("####......  40% f64")


def test_columns_are_asked_for_by_the_environment_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert results().width == 80
    monkeypatch.delenv("COLUMNS")
    assert results().width == 160
