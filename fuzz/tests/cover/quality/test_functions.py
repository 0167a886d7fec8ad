"""The largest errors of functions of libraries: as mpmath has them, and one that is off is seen."""

from __future__ import annotations

import ctypes
import json
import math
from pathlib import Path

import mpmath
import numpy as np
import pytest

from fuzz.quality import functions
from fuzz.quality.__main__ import app
from fuzz.quality.functions import FUNCTIONS, called, compiled, has, largest, spacing
from fuzz.tests.conftest import Cli
from oracles.elementary.functions import function


@pytest.fixture(scope="module")
def loops(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return ctypes.CDLL(str(compiled(tmp_path_factory.mktemp("loops"))))


ARGUMENTS = np.concatenate(
    [np.linspace(-4.0, 4.0, 801), np.linspace(-200.0, 200.0, 401), [0.0, -0.0, np.inf, -np.inf, 1e-40, 3e38]]
).astype(np.float32)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_the_c_library_is_within_ten_ulp_and_has_its_special_values(
    name: str, loops: ctypes.CDLL
) -> None:
    found = largest(name, "C", ARGUMENTS, loops)
    assert found.ulp < 10
    assert (found.tried, found.special) == (ARGUMENTS.size, 0), found.special_at


def test_where_all_values_overflow_there_is_no_error(loops: ctypes.CDLL) -> None:
    assert largest("exp", "C", np.linspace(100, 128, 64, dtype=np.float32), loops).ulp == 0


@pytest.mark.parametrize("name", ["exp", "log", "erfc", "tgamma"])
def test_a_value_that_is_off_by_some_units_is_seen_where_it_is(
    name: str, loops: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.linspace(0.5, 3.0, 1001).astype(np.float32)
    y = called("C", name, x, loops)
    place = 700
    with mpmath.workprec(100):
        exact = function(name).exactly(mpmath.mpf(float(x[place])))
        y[place] += 12 * np.float32(spacing(np.asarray(float(exact))))
        off = abs(exact - float(y[place])) / float(spacing(np.asarray(float(exact))))
    monkeypatch.setattr(functions, "called", lambda *given: y)
    found = largest(name, "C", x, loops)
    assert found.at == x[place]
    assert found.ulp == pytest.approx(float(off), rel=1e-12)
    assert 10 < found.ulp < 14


def test_a_special_value_that_is_wrong_is_counted(loops: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    y = called("C", "exp", ARGUMENTS, loops)
    y[3] = np.nan
    y[ARGUMENTS == 1.0] = np.inf
    monkeypatch.setattr(functions, "called", lambda *given: y)
    found = largest("exp", "C", ARGUMENTS, loops)
    assert (found.special, found.special_at) == (1 + int((ARGUMENTS == 1.0).sum()), ARGUMENTS[3])


def test_a_unit_is_the_distance_of_neighbours() -> None:
    for value, unit in ((1.0, 2.0**-23), (1.9, 2.0**-23), (2.0, 2.0**-22), (1e-40, 2.0**-149), (0.0, 2.0**-149)):
        assert spacing(np.asarray(value)) == unit


def test_only_what_a_library_has_is_tried() -> None:
    assert has("C", "tgamma")
    assert has("numpy", "acosh")
    assert not has("numpy", "erf")
    assert not has("scipy", "exp")


def test_the_command_prints_what_it_found(cli_here: Cli, tmp_path: Path) -> None:
    words = ("functions", "--function", "e[rx]*", "--library", "[Cn]*", "--stride", "1000003", "-j", "1", "--markdown")
    done = cli_here(*words, "--json", str(tmp_path / "found.json"), app=app)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line[:2] == "| "]
    shown = {(row[0], row[1]): row for row in rows}
    assert {("erf", "C"), ("erfc", "C"), ("exp", "C"), ("exp", "numpy"), ("exp2", "C")} <= {*shown}
    assert float(shown["exp", "C"][3]) <= 0.51
    assert shown["erfc", "C"][5:] == ["3", "0"]
    (one,) = [each for each in json.loads((tmp_path / "found.json").read_text())["largest"]
              if (each["function"], each["library"]) == ("exp", "C")]  # fmt: skip
    assert one["tried"] > 4000
    assert math.isclose(one["ulp"], float(shown["exp", "C"][3]), abs_tol=1e-3)
