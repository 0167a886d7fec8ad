"""Planted bugs under this tool and under other tests: what is counted is true of bugs of which it is known."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fuzz.adapters.pack import load
from fuzz.base.draw import Frame
from fuzz.base.errors import UsageError
from fuzz.base.kernel import Kernel, Mutant
from fuzz.quality.__main__ import app
from fuzz.quality.detection.hunt import OURS, Limits, Seen, hunted
from fuzz.quality.detection.state import Answer, asked_of, keep, known
from fuzz.quality.detection.tables import alone, missed, scores, sharpness, visible_of
from fuzz.quality.detection.usual import case_of, normal, setups
from fuzz.quality.detection.ways import WAYS, Trial, Way, of_suite
from fuzz.tests.common.hunting import PACK
from fuzz.tests.conftest import CHECKOUT, Cli
from fuzz.uses.corpus.suites import load_suite
from oracles.declared import AXIS
from oracles.ops import OPS

WRONG = next(each for each in PACK.mutants if each.name == "generic-divides-by-n-plus-1")
"""It is wrong everywhere, by more than any tolerance."""
STRIDED = next(each for each in PACK.mutants if each.name == "generic-takes-any-strides")
"""It is right of every contiguous tensor."""
SAME = replace(WRONG, name="generic-same", edits=())
"""No bug at all, which nobody may find."""
LIGER = of_suite(load_suite(CHECKOUT / "corpora" / "suites" / "liger.json"))
LIMITS = Limits(1, 64, 60.0, least=16)


def _ways(*names: str) -> list[Way]:
    return [way for way in WAYS if way.name in names]


def _hunted(ways: list[Way], *mutants: Mutant) -> list[Seen]:
    return hunted(replace(PACK, mutants=mutants), "generic", mutants, ways, LIMITS)


def _strict(kernel: Kernel, seed: int) -> Iterator[Trial]:
    """A tolerance that no kernel keeps."""
    [close] = _ways("assert_close")
    for trial in close.trials(kernel, seed):
        yield replace(trial, wrong=lambda name, got, expected: got == got)


def test_each_way_finds_what_it_must_and_accuses_no_right_kernel() -> None:
    """One with a tolerance that no kernel keeps accuses it on every case, and so finds nothing."""
    ways = [*_ways("assert_close", "flashinfer-bench"), LIGER, Way("strict", "", _strict)]
    seen = _hunted(ways, WRONG, STRIDED, SAME)
    found = {(each.way, each.kernel) for each in seen if each.accused}
    assert found == {
        (OURS, WRONG.name), (OURS, STRIDED.name), ("assert_close", WRONG.name), ("liger", WRONG.name),
        ("strict", "generic"),
    }  # fmt: skip
    first = {each.kernel: each.cases for each in seen if each.way == OURS}
    assert 1 <= first[WRONG.name] <= first[STRIDED.name] <= first[SAME.name] == first["generic"]
    counted = {each.way: each for each in scores(seen, visible_of([WRONG, STRIDED]))}
    assert [(each.found, each.bugs, each.accused, each.right) for each in counted.values()] == [
        (2, 3, 0, 1), (1, 3, 0, 1), (0, 3, 0, 1), (1, 3, 0, 1), (0, 3, 1, 1),
    ]  # fmt: skip
    assert {(each.seen, each.visible) for each in counted.values()} == {(1, 1), (0, 1)}
    assert (counted[OURS].seen, counted["flashinfer-bench"].seen) == (1, 0)
    assert missed(seen) == [SAME.name]
    assert alone(seen) == 1


def test_what_is_known_is_not_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "state"
    asked, other = (next(iter(asked_of([each], _ways("assert_close"), LIMITS))) for each in (WRONG, STRIDED))
    assert asked != other
    assert known(path) == {}
    answer = Answer(asked, (Seen(OURS, WRONG.name, "rms_norm", False, True, 3, 0.5),))
    keep(path, answer)
    with path.open("ab") as file:
        file.write(b'{"asked": ')  # it was killed here
    assert known(path) == {asked: answer}
    path.write_text("something else\n")
    with pytest.raises(UsageError, match="not written by this command"):
        known(path)


@pytest.mark.whole
def test_the_command_ends_with_its_time_and_says_what_it_did_not_reach(cli_here: Cli, tmp_path: Path) -> None:
    words = ("detection", "-k", WRONG.name, "--no-sharpness", "--max-time", "0.001s", "--json", "found.json")
    done = cli_here(*words, app=app)
    assert done.returncode == 0, done.stderr
    assert "1 of 1 correct kernels were not reached" in done.stdout
    assert json.loads((tmp_path / "found.json").read_text())["seen"] == []
    wrong = cli_here("detection", "-k", "no_such_bug", app=app)
    assert (wrong.returncode, "plants no bug that matches" in wrong.stderr) == (4, True)


def test_a_kernel_that_says_how_it_adds_is_judged_no_less_sharply() -> None:
    found = [sharpness(OPS[op], dtype, 256) for op in ("softmax", "row_sum") for dtype in ("f32", "bf16")]
    for each in found:
        assert each is not None
        assert 0 < each.declared <= each.undeclared
    softmax = found[0]
    assert softmax is not None
    assert softmax.undeclared < softmax.close / 100
    assert sharpness(OPS["quantize_mxfp8"], "f32", 256) is None


def test_the_page_says_of_each_test_how_it_was_run_and_what_came_of_it() -> None:
    page = (CHECKOUT / "fuzz" / "docs" / "detection.md").read_text()
    suites = [each.stem for each in sorted((CHECKOUT / "corpora" / "suites").glob("*.json"))]
    names = [OURS, *(way.name for way in WAYS), *suites]
    [found, _, of_gpuemu] = [re.findall(r"^\| ([^|]+) \|", part, re.MULTILINE)[2:] for part in page.split("\n## ")[1:4]]
    assert found == of_gpuemu == names
    assert all(f"`{name}`" in page for name in names)


def test_the_corpus_of_gpuemu_has_its_kernels_and_its_bugs() -> None:
    """As table 1 of the paper counts them; each bug is one edit of a correct kernel."""
    pack = load(CHECKOUT / "fuzz" / "quality" / "gpuemu")
    assert (len(pack.kernels), len(pack.mutants)) == (16, 10)
    source = pack.kernels[0].source.read_text()
    assert [source.count(old) for mutant in pack.mutants for old, _ in mutant.edits] == [1] * 10
    asked = list(asked_of(pack.mutants, WAYS, LIMITS, [each.name for each in pack.kernels]))
    assert sorted(each.base for each in asked) == sorted(each.name for each in pack.kernels)
    assert sum(len(each.mutants) for each in asked) == 10


@pytest.mark.parametrize("name", ["generic", "attention-composed", "scaled-matmul-generic"])
def test_usual_inputs_are_taken_and_say_along_which_axis_rows_lie(name: str) -> None:
    """Also of an op whose rows lie along one axis only: a kernel in Python may have a parameter for it."""
    kernel = PACK.kernel(name)
    cases = [case_of(kernel, setup, normal(1), 1) for setup in setups(kernel)]
    assert all(each is not None and each.params[AXIS] == len(Frame(each).grid) - 1 for each in cases)
