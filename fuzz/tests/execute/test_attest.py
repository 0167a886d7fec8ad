"""What a worker of Python kernels says of itself where it cannot run."""

from __future__ import annotations

import pytest

from fuzz.python_worker import attest
from fuzz.python_worker.spec import Spec

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'kernelfuzz[torch]'")
SPEC = Spec("kernel.py", ".", "rms_norm", "rms_norm", "triton", "interpret", {}, {})


def test_an_interpreter_that_cannot_loop_is_named_and_nothing_runs_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton 3.6 makes an index of an array of one element, which NumPy 2.5 refuses: no kernel's fault."""
    monkeypatch.setattr("fuzz.python_worker.probe.loop_fault", lambda: "TypeError: only 0-dimensional arrays")
    hello = attest.attested(SPEC, None, torch)  # type: ignore[arg-type]
    assert hello.startswith("missing=Triton ")
    assert hello.count("\n") == 0
    assert "cannot loop with NumPy" in hello
    assert "only 0-dimensional arrays" in hello
