"""Remainders of libraries: exact ones are right, and any other value is counted."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from fuzz.quality.__main__ import app
from fuzz.quality.functions import drawn, exact
from fuzz.quality.libraries import FORMATS, LIBRARIES, Floats, MathLibrary, NumberFormat, found
from fuzz.tests.conftest import Cli


@pytest.mark.parametrize("form", FORMATS.values(), ids=lambda each: str(each.name))
def test_pairs_are_finite_and_their_remainders_those_of_python(form: NumberFormat, tmp_path: Path) -> None:
    pairs = drawn(form, 3)[:999]
    assert np.isfinite(pairs).all()
    assert (pairs[:, 1] != 0).all()
    right = exact(pairs, form, tmp_path)
    assert right.tolist() == [math.fmod(x, y) for x, y in pairs.tolist()]
    assert 0.1 < (right == pairs[:, 0]).mean() < 0.9, "some quotients are below one"


@pytest.mark.parametrize("library", ["musl", "PoCL", "numpy"])
def test_libraries_that_are_here_are_exact(library: str, tmp_path: Path) -> None:
    for form in FORMATS.values():
        if own := found(library, "fmod", tmp_path, form):
            pairs = drawn(form, 4)[:999]
            assert own(pairs).tolist() == exact(pairs, form, tmp_path).tolist()


def test_a_value_by_a_rounded_quotient_is_wrong(cli_here: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def by_quotient(x: Floats) -> Floats:
        with np.errstate(all="ignore"):
            return np.asarray(x[:, 0] - np.trunc(x[:, 0] / x[:, 1]) * x[:, 1])

    monkeypatch.setitem(LIBRARIES, "made", MathLibrary(lambda name, folder, form: by_quotient, "nothing"))
    words = ("remainders", "--library", "[Cm]*e", "--count", "1", "--json", str(tmp_path / "found.json"))
    done = cli_here(*words, app=app)
    assert done.returncode == 0, done.stderr
    for each in json.loads((tmp_path / "found.json").read_text())["remainders"]:
        assert each["library"] == "made"
        assert each["wrong"] > each["tried"] // 10
        x, y, _, right = each["example"]
        assert right == math.fmod(x, y)
        assert abs(x / y) < 2.0**30, "an example is plain"
