"""A batch of candidates has a ruling on each, whatever some of them do."""

from __future__ import annotations

from pathlib import Path

import jsonschema

from fuzz.tasks.judge.ruling import schema
from fuzz.tests.common.exploits import NUMPY
from fuzz.tests.common.exploits_torch import CUDA, TORCH
from fuzz.tests.common.solutions import HONEST, judged
from fuzz.tests.conftest import Cli

_HOSTILE = {name: each.text for name, each in {**NUMPY, **TORCH, **CUDA}.items()}
"""Every hostile solution: those of other problems cannot even be called."""
_BY_PROBES = {"caller_named", "caller_stack", "weak_object", "side_stream"}
"""Those that a call in another way shows, or a GPU: eight cases have few of these."""
_BATCH = 64


def test_a_batch_with_every_hostile_solution_has_all_its_rulings(cli_here: Cli, tmp_path: Path) -> None:
    honest = {f"honest_{at}": HONEST["right"] for at in range(_BATCH - len(_HOSTILE))}
    batch = {**dict(list(honest.items())[::2]), **_HOSTILE, **dict(list(honest.items())[1::2])}
    assert len(batch) == _BATCH
    assert len(honest) > 1
    words = ("--seed", "7", "--no-shrink", "--max-cases", "8")
    code, ruling = judged(cli_here, tmp_path, batch, *words)
    jsonschema.validate(ruling, schema())
    found = {each["solution"].removesuffix(".py"): each for each in ruling["solutions"]}
    assert found.keys() == batch.keys()
    assert (code, ruling["verdict"]) == (1, "wrong")
    assert {name for name in honest if (found[name]["verdict"], found[name]["score"]) != ("right", 1.0)} == set()
    assert {name for name in _HOSTILE if found[name]["verdict"] == "right"} <= _BY_PROBES
    assert all((each["verdict"] == "right") == (each["score"] > 0.5) for each in found.values())
    assert all(each["headline"] for each in found.values())
