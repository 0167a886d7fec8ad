"""Python kernels on the command line: what is missing is said, slow targets replay anything, tools are found."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fuzz.cli import main
from fuzz.cli.exits import Exit
from fuzz.core.adapters.cuda import no_cuda_device
from fuzz.core.base.case import contiguous
from fuzz.findings import casefile
from fuzz.tests.common.planted import a_case

PACK = """
from pathlib import Path
from fuzz import PythonKernel
KERNELS = (
    PythonKernel("copy", "rms_norm", Path(__file__).parent / "copy.py", "torch"),
    PythonKernel("plain", "rms_norm", Path(__file__).parent / "plain.py", "triton"),
)
"""

PLAIN = """
import triton
import triton.language as tl

@triton.jit
def program(x_ptr, y_ptr, n, eps, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + column, mask=column < n, other=0.0)
    mean = tl.div_rn(tl.sum(x * x, axis=0), n * 1.0)
    tl.store(y_ptr + row * n + column, tl.div_rn(x, tl.sqrt_rn(mean + eps)), mask=column < n)

def rms_norm(x, y, eps, axis):
    program[(x.shape[0],)](x, y, x.shape[1], eps, BLOCK=triton.next_power_of_2(x.shape[1]))
"""


@pytest.fixture
def pack(tmp_path: Path) -> str:
    (tmp_path / "pack.py").write_text(PACK)
    (tmp_path / "copy.py").write_text("def rms_norm(x, y, eps, axis): y.copy_(x)\n")
    (tmp_path / "plain.py").write_text(PLAIN)
    return str(tmp_path)


def _main(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["kernelfuzz", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(str(ended.value.code))


def _run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    return _main(monkeypatch, "run", "--max-cases", "1", *words)


def test_sanitize_needs_its_tool(
    pack: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fuzz.core.adapters.cuda._TOOLKIT", "/nowhere")
    monkeypatch.setenv("PATH", "/nowhere")
    assert _run(monkeypatch, "--pack", pack, "--target", "torch@cuda", "--sanitize") == Exit.USAGE
    assert "compute-sanitizer is not installed; it comes with NVIDIA's CUDA toolkit" in capsys.readouterr().err


def test_sanitize_needs_a_cuda_target(
    pack: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, "--pack", pack, "--target", "torch@cpu", "--sanitize") == Exit.USAGE
    assert "none is chosen; add --target" in capsys.readouterr().err


def test_no_device_is_no_failure_and_says_why_once(
    pack: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reason = "no CUDA device (planted)"
    monkeypatch.setattr("fuzz.core.adapters.cuda.no_cuda_device", lambda: reason)
    assert _run(monkeypatch, "--pack", pack, "--target", "torch@cuda") == Exit.NOTHING_RAN
    said = capsys.readouterr()
    assert (said.out + said.err).count(f"NOT_RUN torch-copy@cuda: {reason}") == 1


def test_one_case_file_replays_interpreted_and_compiled(
    pack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A search would never give the interpreter that many rows."""
    case = replace(a_case(contiguous((50, 2))), params={"axis": 1, "eps": 0.5})
    casefile.save(tmp_path / "case.json", case)
    words = ("--pack", pack, "--target", "triton-*@interpret,triton@cuda")
    assert _main(monkeypatch, "repro", str(tmp_path / "case.json"), *words) == Exit.OK
    said = capsys.readouterr()
    assert re.search(r"triton-plain@interpret +PASS", said.out)
    reason = no_cuda_device()
    assert f"NOT_RUN triton-plain@cuda: {reason}" in said.err if reason else "triton-plain@cuda" in said.out


@pytest.mark.whole
def test_doctor_says_what_the_interpreter_gets_wrong(
    pack: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main(monkeypatch, "doctor", "--pack", pack) == Exit.OK
    said = " ".join(capsys.readouterr().out.split())
    assert "triton-plain@interpret interpreted on the CPU, torch" in said
    assert "on 1 target no case with bf16: Triton's interpreter gets" in said
    assert said.endswith(f"next: kernelfuzz run --pack {pack} --max-time 1m")
