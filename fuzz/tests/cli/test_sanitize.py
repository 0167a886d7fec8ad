"""--sanitize: what it needs, in one line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fuzz.cli import main
from fuzz.cli.exits import Exit
from fuzz.execute.python_target import no_cuda_device

PACK = """
from pathlib import Path
from fuzz import PythonKernel
KERNELS = (PythonKernel("copy", "rms_norm", Path(__file__), "torch"),)
def rms_norm(x, y, eps, axis): y.copy_(x)
"""


@pytest.fixture
def pack(tmp_path: Path) -> str:
    (tmp_path / "pack.py").write_text(PACK)
    return str(tmp_path)


def _run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["kernelfuzz", "run", "--max-cases", "1", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(str(ended.value.code))


def test_it_needs_its_tool(pack: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("fuzz.cli.starting._TOOLKIT", "/nowhere")
    monkeypatch.setenv("PATH", "/nowhere")
    assert _run(monkeypatch, "--pack", pack, "--target", "torch@cuda", "--sanitize") == Exit.USAGE
    assert "compute-sanitizer is not installed; it comes with NVIDIA's CUDA toolkit" in capsys.readouterr().err


def test_it_needs_a_cuda_target(pack: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(monkeypatch, "--pack", pack, "--target", "torch@cpu", "--sanitize") == Exit.USAGE
    assert "none is chosen; add --target" in capsys.readouterr().err


def test_no_device_is_no_failure_and_says_why(
    pack: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reason = no_cuda_device()
    if reason is None:
        pytest.skip("there is a CUDA device")
    assert _run(monkeypatch, "--pack", pack, "--target", "torch@cuda") == Exit.NOTHING_RAN
    assert f"NOT_RUN torch-copy@cuda: {reason}" in capsys.readouterr().err
