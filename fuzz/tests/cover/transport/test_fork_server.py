"""Processes share the server of Python workers that was there when they were forked."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest

from fuzz.core.adapters.build import Builder
from fuzz.core.adapters.target import Target
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.transport.fork_server import fork_server
from fuzz.tests.common.planted import a_case
from fuzz.tests.common.python_planted import python_target

_TELLS = """
import os
from pathlib import Path

def rms_norm(x, y, *, axis, eps, **absent):
    y[:] = x
    keeper = Path(f"/proc/{os.getppid()}/stat").read_text()
    y[0, 0] = int(keeper.rpartition(")")[2].split()[1])  # an f32 has all ids below 2^24
"""
_LIMIT_S = 60.0
_MANY = 1100
"""Descriptors: `select` knows 1,024."""
_FORK = multiprocessing.get_context("fork")


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    """Its kernel writes the id of the server that forked its worker."""
    fork_server.cache_clear()
    yield python_target(tmp_path, _TELLS, "numpy")
    fork_server.cache_clear()


def _server(target: Target, cache: Path) -> int:
    with WorkerPool([target], cache=cache) as pool:
        [outcome] = [each[target.id] for each in pool.submit([a_case()]).outcomes()]
    return int(np.frombuffer(outcome.outputs["y"], "<f4")[0])


def _tell(target: Target, cache: Path, connection: Connection) -> None:
    while connection.poll(_LIMIT_S) and connection.recv():
        connection.send(_server(target, cache))


@pytest.mark.whole
def test_processes_share_a_server_and_start_their_own_once_it_has_ended(target: Target, tmp_path: Path) -> None:
    builder = Builder(tmp_path / "cache")
    target.adapter.share(target, builder)
    ours, theirs = _FORK.Pipe()
    process = _FORK.Process(target=_tell, args=(target, builder.cache, theirs))
    process.start()
    shared = _asked(ours)
    assert _server(target, builder.cache) == shared
    os.kill(shared, signal.SIGKILL)
    own = _asked(ours)
    assert len({shared, own, _server(target, builder.cache)}) == 3
    assert _asked(ours) == own
    ours.send(False)
    process.join(_LIMIT_S)
    assert process.exitcode == 0


def _asked(connection: Connection) -> int:
    connection.send(True)
    assert connection.poll(_LIMIT_S)
    return int(connection.recv())


@pytest.mark.whole
def test_a_server_starts_where_a_thousand_descriptors_are_open(target: Target, cache: Path) -> None:
    """As in a run of hundreds of targets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < _MANY + 100:
        pytest.skip("no process may have so many")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, _MANY + 100), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(_MANY)]
    try:
        assert _server(target, cache) > 0
    finally:
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
