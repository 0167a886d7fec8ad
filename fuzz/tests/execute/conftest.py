"""Fixtures that build and run a kernel written inside a test: C natively and emulated, Python on each device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fuzz.adapters.c import CKernel
from fuzz.adapters.python import Device
from fuzz.adapters.target import Target
from fuzz.base.case import Case
from fuzz.base.outcome import Outcome
from fuzz.execute.pool import WorkerPool
from fuzz.tests.execute.planted import ANYTHING, HEAD, Run, c_target
from fuzz.tests.execute.python_planted import TORCH_HEAD, RunPython, indented, outcomes, python_target


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("built")


@pytest.fixture(params=["native", "qemu"])
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make_target(tmp_path: Path, place: str) -> Callable[[str], Target]:
    """A target for the body of `kf_rms_norm(c)`, native or emulated."""

    def make(body: str) -> Target:
        source = tmp_path / "planted.c"
        source.write_text(f"{HEAD}{body}\n    return KF_OK;\n}}\n")
        target = c_target(CKernel("planted", "rms_norm", source, "runtime", capabilities=ANYTHING), place)
        assert target.unavailable() is None, "tests need every compiler and emulator: kernelfuzz doctor --install"
        return target

    return make


@pytest.fixture
def run(make_target: Callable[[str], Target], cache: Path) -> Run:
    """Outcomes of a kernel body on cases."""

    def go(body: str, *cases: Case, limit: float = 10.0, second_run: bool = False) -> list[Outcome]:
        target = make_target(body)
        with WorkerPool([target], limit=limit, second_run=second_run, cache=cache, bounded=False) as pool:
            return [outcomes[target.id] for outcomes in pool.collect(pool.submit(cases))]

    return go


@pytest.fixture(params=["cpu", "cuda"])
def device(request: pytest.FixtureRequest) -> Device:
    found: Device = request.param
    return found


@pytest.fixture
def run_python(tmp_path: Path, cache: Path, device: Device) -> RunPython:
    """Outcomes of a torch kernel's body on cases."""

    def go(body: str, *cases: Case, head: str = TORCH_HEAD, **options: object) -> list[Outcome]:
        return outcomes(python_target(tmp_path, head + indented(body), device=device), cache, *cases, **options)

    return go
