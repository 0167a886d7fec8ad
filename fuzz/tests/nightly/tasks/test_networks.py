"""Whole networks, blocks and layers at the sizes of benchmarks get a ruling, in a time that a busy machine has, too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fuzz.tests.common.networks import NETWORKS
from fuzz.tests.conftest import Cli

_LIMIT, _CASES = "50m", "12"


@pytest.mark.parametrize("name", NETWORKS)
def test_an_honest_network_is_right_and_a_wrong_one_wrong(cli_here: Cli, tmp_path: Path, name: str) -> None:
    honest, wrong = NETWORKS[name].write(tmp_path)
    words = ("--against", "task.py", "--seed", "1", "--no-shrink", "--json", "--max-cases", _CASES)
    found = {each: json.loads(cli_here("judge", each, *words, "--max-time", _LIMIT).stdout) for each in (honest, wrong)}
    said = {each: (ruling["verdict"], ruling["solutions"][0]["reason"]) for each, ruling in found.items()}
    assert said[honest][0] == "right", said
    assert said[wrong][0] == "wrong", said
