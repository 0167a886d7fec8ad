"""No wrong solution is right, however it tries; and what is said of one is the same each time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from fuzz.tests.common.exploits import ANY_VALUES, NUMPY, PROBLEMS, Exploit
from fuzz.tests.common.exploits_torch import CUDA, TORCH
from fuzz.tests.common.solutions import CHEATS, HONEST, judged, parts_of
from fuzz.tests.conftest import Cli


def _verdicts(
    cli_here: Cli, folder: Path, problem: str, found: Mapping[str, Exploit], *words: str
) -> dict[str, str]:  # fmt: skip
    source, shapes = PROBLEMS[problem]
    texts = {name: each.text for name, each in found.items() if each.problem == problem}
    reference = f"import torch\n\n\n{source}"
    _, ruling = judged(
        cli_here, folder, texts, "--seed", "7", "--no-shrink", *words, shapes=shapes, reference=reference
    )  # fmt: skip
    return {each["solution"].removesuffix(".py"): each["verdict"] for each in ruling["solutions"]}


def test_no_solution_that_is_wrong_is_right_however_it_tries(cli_here: Cli, tmp_path: Path) -> None:
    code, ruling = judged(cli_here, tmp_path, CHEATS, "--seed", "7", "--no-shrink")
    assert {each["solution"]: each["verdict"] for each in ruling["solutions"]} == {
        f"{name}.py": "wrong" for name in CHEATS
    }
    assert (code, ruling["verdict"]) == (1, "wrong")


_EXPLOITS = {**NUMPY, **TORCH}
"""The documented exploits."""
_PARTS = parts_of(_EXPLOITS, 9)
"""Each takes some 10 processor seconds, and those of norm together more than a test has on a busy machine."""


@pytest.mark.parametrize(("problem", "names"), _PARTS, ids=[f"{problem}-{names[0]}" for problem, names in _PARTS])
def test_no_documented_exploit_is_right(cli_here: Cli, tmp_path: Path, problem: str, names: list[str]) -> None:
    said = _verdicts(cli_here, tmp_path, problem, {name: _EXPLOITS[name] for name in names})
    assert said == dict.fromkeys(names, "wrong")


def test_where_nan_is_judged_it_stands_where_it_must(cli_here: Cli, tmp_path: Path) -> None:
    said = _verdicts(cli_here, tmp_path, "norm", ANY_VALUES, "--values", "any")
    assert said == {"nan_everywhere": "wrong"}


@pytest.mark.parametrize("problem", ["norm", "product"])
def test_no_exploit_of_a_gpu_is_right(cli_here: Cli, tmp_path: Path, problem: str) -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("there is no GPU here: side streams, graphs and its memory are not tried")
    said = _verdicts(cli_here, tmp_path, problem, CUDA, "--target", "*@cuda")
    assert {*said.values()} == {"wrong"}, said


def test_each_probe_says_what_it_found_with_a_smallest_case(cli_here: Cli, tmp_path: Path) -> None:
    source, shapes = PROBLEMS["norm"]
    tried = {name: NUMPY[name].text for name in ("cached_by_sample", "old_pointer", "caller_named")}
    reference = f"import torch\n\n\n{source}"
    _, ruling = judged(cli_here, tmp_path, tried, "--seed", "7", shapes=shapes, reference=reference)
    said = {each["solution"]: each["failures"][0] for each in ruling["solutions"]}
    assert re.fullmatch(
        r"the answer did not follow the input: \w\[[\d, ]+\] changed from \S+ to \S+ in place and the output stayed the"
        r" same \(it is cached by address or object\)",
        said["cached_by_sample.py"]["reason"],
    )
    assert said["old_pointer.py"]["reason"] == (
        "the answer did not follow the input: after 12 calls at one address the call at another one gave the output of"
        " the old one"
    )
    assert said["caller_named.py"]["reason"].startswith("the answer depends on who calls: in a loop of a file")
    for each in said.values():
        assert all(len(tensor["values"]) <= 4 for tensor in each["case"]["inputs"].values()), each["case"]


def test_the_same_seed_says_the_same(cli_here: Cli, tmp_path: Path) -> None:
    one, other = (judged(cli_here, tmp_path, HONEST, "--seed", "7") for _ in range(2))
    assert one[0] == 0
    assert [{**ruling, "seconds": {}} for _, ruling in (one, other)] == [{**one[1], "seconds": {}}] * 2
