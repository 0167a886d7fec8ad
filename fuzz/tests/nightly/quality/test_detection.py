"""A search finds what is planted in kernels of softmax, and accuses no right kernel."""

from __future__ import annotations

import json
from pathlib import Path

from fuzz.quality.__main__ import app
from fuzz.tests.conftest import Cli


def test_most_bugs_of_softmax_are_found_and_no_right_kernel_is_accused(cli_here: Cli, tmp_path: Path) -> None:
    done = cli_here("detection", "--ops", "*softmax*", "--json", "found.json", app=app)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())["found"]
    assert not [each["not_run"] for each in found if each["not_run"]]
    seen = [one for each in found for one in each["seen"]]
    assert not [each["kernel"] for each in seen if each["right"] and each["accused"]]
    wrong = [each for each in seen if not each["right"]]
    assert sum(each["accused"] for each in wrong) >= 0.9 * len(wrong)
