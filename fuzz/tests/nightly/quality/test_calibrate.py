"""Correct kernels of every op pass. `.ci/nightly` has them under all contracts, with a fresh seed each night."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fuzz.quality.__main__ import app
from fuzz.quality.calibrate.contracts import SimulatedPack
from fuzz.quality.calibrate.measure import Work, carried_out, measured
from fuzz.tests.common.other_ops import write_other_ops
from fuzz.tests.common.own_pack import unknown_afterwards
from fuzz.tests.conftest import Cli
from oracles.formula.contract import Contract
from oracles.ops import OPS
from oracles.summation import Tiles

_EXACT = ("row_max", "embedding", "row_sum_backward", "row_max_backward", "quantize_mxfp8", "quantize_mxfp8_e5m2")
"""The ops whose outputs are elements of their inputs, or zeros, or codes of quotients by a power of two."""


@pytest.mark.parametrize("op", OPS)
def test_a_correct_kernel_passes_the_ordinary_search(op: str, tmp_path: Path) -> None:
    contract = Contract("f32", sums=dict.fromkeys(OPS[op].named, Tiles(8)), mean="reciprocal")
    found = measured(Work(op, 0, tmp_path, 3, 300), SimulatedPack(OPS[op], contract, 0))
    assert (found.alarms, found.found) == ([], 0)
    assert found.runs >= 200
    assert 0.0 < found.ratio <= 1.0 or (found.ratio == 0.0 and op in _EXACT)


def test_a_process_that_dies_is_said_and_loses_no_other_report(tmp_path: Path) -> None:
    (tmp_path / "pack.py").write_text("import os\n\nos._exit(9)\n")
    listed = [Work("of a pack that ends its process", number, tmp_path, 1, 1, tmp_path) for number in range(9)]
    found = list(carried_out(listed, 2))
    assert 0 < len(found) < 9
    assert all(each.found == 1 and "its process ended" in each.alarms[0] for each in found)


@pytest.mark.parametrize(
    ("stop", "number"),
    [(os.killpg, signal.SIGINT), (os.kill, signal.SIGTERM)],  # a terminal interrupts all of its processes
    ids=["ctrl-c", "kill"],
)
def test_who_stops_it_is_told_what_was_judged_in_place_of_tracebacks(
    tmp_path: Path, stop: Callable[[int, int], None], number: int
) -> None:
    runs = "--runs", "1000000", "--nearest", "40"
    words = ("calibrate", "--op", "softmax", *runs, "-j", "2", "--output", str(tmp_path))
    # What a shell starts in the background ignores Ctrl-C, and hands that on.
    with subprocess.Popen(
        [sys.executable, "-m", "fuzz.quality", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:  # fmt: skip
        while process.poll() is None and not [*tmp_path.glob("*/pack.py")]:
            time.sleep(0.05)
        stop(process.pid, number)
        try:
            out, err = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 2, err
    assert re.match(r"[\d,]+ ", out.splitlines()[-1])
    assert err.splitlines()[-1] == "kernelfuzz: interrupted"
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "op",
    [
        "clipped",
        "cosine",
        "cross_entropy",
        "dynamic_scale",
        "embedded",
        "l2_normalize",
        "logsumexp",
        "masked_mean",
        "silu_gate",
        "softplus",
    ],
)
def test_correct_kernels_of_ops_that_others_write_pass(op: str, tmp_path: Path, cli_here: Cli) -> None:
    """Their formulas have what no built-in one has: choices, clips, maxima of magnitudes, logarithms,
    places and flags."""
    write_other_ops(tmp_path)
    with unknown_afterwards():
        runs = "--runs", "1000", "--nearest", "40"
        done = cli_here("calibrate", "--pack", ".", "--op", op, *runs, "--seed", "9", "-j", "1", app=app)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\n[1-9],[0-9]{3} .* 0 false alarms, 0 undecided", done.stdout), done.stdout
