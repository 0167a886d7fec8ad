"""Several GPUs: which ones there are, and that the processes of a search are spread over them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from fuzz.campaign.search.process_executor import ProcessExecutor
from fuzz.campaign.search.turn_runner import SearchScope
from fuzz.core.adapters import cuda
from fuzz.core.adapters.build import Builder
from fuzz.core.adapters.python_program import spec_of
from fuzz.core.execute.pool import WorkerPool
from fuzz.tests.common.planted import a_case
from fuzz.tests.common.python_planted import python_target


def _executor(sizes: Sequence[int], *devices: str) -> ProcessExecutor:
    def no_pool(targets: object) -> WorkerPool:
        raise AssertionError("nothing is started")

    return ProcessExecutor((), SearchScope(()), sizes, no_pool, devices)


@pytest.mark.parametrize(
    ("said", "found"),
    [("", ("0", "1")), ("1", ("1",)), ("3, 2", ("3", "2")), ("GPU-a,GPU-b,GPU-c", ("GPU-a", "GPU-b"))],
)
def test_the_devices_are_those_that_the_user_lets_be_seen(
    said: str, found: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver counts them, and knows no more of what is named than that."""
    monkeypatch.setattr(cuda, "_driver_devices", lambda: 2)
    monkeypatch.setenv(cuda.VISIBLE, said)
    assert cuda.visible_devices() == found


def test_processes_are_spread_over_all_of_them() -> None:
    two, one = _executor((3, 1), "0", "1"), _executor((4,), "0")
    assert [two._device(number) for number in range(4)] == ["0", "1", "0", "1"]
    assert {one._device(number) for number in range(4)} == {""}
    assert "on 2 GPUs" in two.words
    assert "GPU" not in one.words


def test_a_worker_sees_the_device_of_its_process_alone(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(cuda.VISIBLE, "0,1")  # so that what is set below is undone
    target = python_target(
        tmp_path, "import os\ndef rms_norm(x, y, eps, axis): y[:] = int(os.environ['CUDA_VISIBLE_DEVICES'])\n", "numpy"
    )
    for device in ("1", "0"):
        cuda.use_device(device)
        assert spec_of(target, Builder(cache))[0].environment[cuda.VISIBLE] == device
        with WorkerPool([target], cache=cache) as pool:
            [found] = pool.submit([a_case()]).outcomes()
        assert set(memoryview(found[target.id].outputs["y"]).cast("f")) == {float(device)}
