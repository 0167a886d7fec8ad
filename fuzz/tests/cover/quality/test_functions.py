"""The largest errors of functions of libraries: as mpmath has them, and one that is off is seen."""

from __future__ import annotations

import json
import math
from pathlib import Path

import mpmath
import numpy as np
import pytest

from fuzz.quality.__main__ import app
from fuzz.quality.functions import LibraryFunction, largest, spacing
from fuzz.quality.libraries import FORMATS, FUNCTIONS, LIBRARIES, Floats, MathLibrary, found
from fuzz.tests.conftest import Cli
from oracles.elementary.functions import function


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compiled")


def with_values(name: str, x: Floats, y: Floats, folder: Path, monkeypatch: pytest.MonkeyPatch) -> LibraryFunction:
    """Return what is found of a library whose function has these values."""
    made = MathLibrary(lambda name, folder, form: lambda x: y, "nothing")
    monkeypatch.setitem(LIBRARIES, "made", made)
    found.cache_clear()
    return largest(name, "made", x, folder)


def of_c(name: str, x: Floats, folder: Path) -> Floats:
    own = found("C", name, folder)
    assert own is not None
    return own(x)


ARGUMENTS = np.concatenate(
    [np.linspace(-4.0, 4.0, 801), np.linspace(-200.0, 200.0, 401), [0.0, -0.0, np.inf, -np.inf, 1e-40, 3e38]]
).astype(np.float32)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_the_c_library_is_within_ten_ulp_and_has_its_special_values(name: str, folder: Path) -> None:
    seen = largest(name, "C", ARGUMENTS, folder)
    assert seen.ulp < 10
    assert (seen.tried, seen.special, seen.flushed) == (ARGUMENTS.size, 0, 0), seen.special_at


def test_where_all_values_overflow_there_is_no_error(folder: Path) -> None:
    assert largest("exp", "C", np.linspace(100, 128, 64, dtype=np.float32), folder).ulp == 0


@pytest.mark.parametrize("name", ["exp", "log", "erfc", "tgamma"])
def test_a_value_that_is_off_by_some_units_is_seen_where_it_is(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.linspace(0.5, 3.0, 1001).astype(np.float32)
    y = of_c(name, x, folder)
    place = 700
    with mpmath.workprec(100):
        exact = function(name).exactly(mpmath.mpf(float(x[place])))
        y[place] += 12 * np.float32(spacing(np.asarray(float(exact))))
        off = abs(exact - float(y[place])) / float(spacing(np.asarray(float(exact))))
    seen = with_values(name, x, y, folder, monkeypatch)
    assert seen.at == x[place]
    assert seen.ulp == pytest.approx(float(off), rel=1e-12)
    assert 10 < seen.ulp < 14


def test_a_special_value_that_is_wrong_is_counted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    y = of_c("exp", ARGUMENTS, folder)
    y[3] = np.nan
    y[ARGUMENTS == 1.0] = np.inf
    seen = with_values("exp", ARGUMENTS, y, folder, monkeypatch)
    assert (seen.special, seen.special_at) == (1 + int((ARGUMENTS == 1.0).sum()), ARGUMENTS[3])


def test_a_unit_is_the_distance_of_neighbours() -> None:
    for value, unit in ((1.0, 2.0**-23), (1.9, 2.0**-23), (2.0, 2.0**-22), (1e-40, 2.0**-149), (0.0, 2.0**-149)):
        assert spacing(np.asarray(value)) == unit


def test_zero_for_a_subnormal_number_is_counted_apart(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.asarray([1e-40, -1e-40, 1.0, 3e-39], np.float32)
    zero = np.zeros(1, np.float32)
    taken = np.asarray([-np.inf, np.nan, 0.0, -np.inf], np.float32)  # log, of subnormal numbers that count as zeros
    seen = with_values("log", x, taken, folder, monkeypatch)
    assert (seen.flushed, seen.special, seen.ulp) == (2, 0, 0.0)
    returned = np.concatenate([zero, zero, of_c("erf", x[2:], folder)])
    seen = with_values("erf", x, returned, folder, monkeypatch)
    assert (seen.flushed, seen.special) == (2, 0)
    assert seen.ulp < 1
    seen = with_values("erf", np.asarray([2e-38], np.float32), zero, folder, monkeypatch)  # a normal result
    assert seen.flushed == 0
    assert seen.ulp > 1e6


@pytest.mark.parametrize("library", [each for each in LIBRARIES if each not in ("C", "torch", "jax")])
@pytest.mark.parametrize("name", ["erfc", "exp"])
def test_a_library_that_is_here_has_values_near_the_exact_ones(library: str, name: str, folder: Path) -> None:
    if found(library, name, folder):
        seen = largest(name, library, np.linspace(-4.0, 4.0, 801, dtype=np.float32), folder)
        assert (seen.tried, seen.special) == (801, 0)
        assert seen.ulp < 20
    else:
        assert LIBRARIES[library].install


def test_only_what_a_library_has_is_tried(folder: Path) -> None:
    assert found("C", "tgamma", folder)
    assert found("numpy", "acosh", folder)
    assert not found("numpy", "erf", folder)
    assert not found("scipy", "exp", folder)


def test_a_program_that_cannot_be_made_is_no_library(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert LIBRARIES["musl"].find("erf", folder, FORMATS["f32"]) is None
    assert LIBRARIES["PoCL"].find("erf", folder, FORMATS["f32"]) is None


def test_a_library_that_is_not_here_is_left_out_with_a_word(cli_here: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LIBRARIES, "none", MathLibrary(lambda name, folder, form: None, "apt install none"))
    words = ("functions", "--function", "exp", "--library", "[nC]*", "--stride", "100000007", "-j", "1")
    done = cli_here(*words, app=app)
    assert done.returncode == 0, done.stderr
    assert "none, which is not here: apt install none" in done.stdout
    assert "numpy, which" not in done.stdout


def test_the_command_prints_what_it_found(cli_here: Cli, tmp_path: Path) -> None:
    words = ("functions", "--function", "e[rx]*", "--library", "[Cn]*", "--stride", "1000003", "-j", "1", "--markdown")
    done = cli_here(*words, "--json", str(tmp_path / "found.json"), app=app)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line[:2] == "| "]
    shown = {(row[0], row[1]): row for row in rows}
    assert {("erf", "C"), ("erfc", "C"), ("exp", "C"), ("exp", "numpy"), ("exp2", "C")} <= {*shown}
    assert float(shown["exp", "C"][3]) <= 0.51
    assert shown["erfc", "C"][5:] == ["3", "0", "0"]
    (one,) = [each for each in json.loads((tmp_path / "found.json").read_text())["largest"]
              if (each["function"], each["library"]) == ("exp", "C")]  # fmt: skip
    assert one["tried"] > 4000
    assert math.isclose(one["ulp"], float(shown["exp", "C"][3]), abs_tol=1e-3)


@pytest.mark.parametrize("name", ["exp", "erfc", "lgamma", "sin"])
def test_a_value_of_f64_that_is_off_by_some_units_is_seen(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, form = np.linspace(0.5, 3.0, 1001), FORMATS["f64"]
    own = found("C", name, folder, form)
    assert own is not None
    y = own(x)
    y[700] += 12 * spacing(y[700:701].astype(form.wide), form)[0]
    seen = with_values(name, x, y, folder, monkeypatch)
    assert seen.at == x[700]
    assert 7 < seen.ulp < 17
    assert largest(name, "C", x, folder).ulp < 5


def test_numbers_of_f64_are_drawn_and_others_around_the_worst(cli_here: Cli, tmp_path: Path) -> None:
    words = ("functions", "--function", "exp", "--library", "C", "--dtype", "f64", "-j", "1", "--json")
    done = cli_here(*words, str(tmp_path / "found.json"), app=app)
    assert done.returncode == 0, done.stderr
    (one,) = json.loads((tmp_path / "found.json").read_text())["largest"]
    assert 0.5 < one["ulp"] < 0.52
    assert one["tried"] > 2**20
    refused = cli_here("functions", "--dtype", "f16", app=app)
    assert (refused.returncode, "--dtype f16: it must be f32 or f64" in refused.stderr) == (4, True)
