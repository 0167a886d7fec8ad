"""The whole of it, of a few ops: this tool finds what is planted there, and accuses no right kernel."""

from __future__ import annotations

import json
from pathlib import Path

from fuzz.quality.__main__ import app
from fuzz.quality.detection.hunt import OURS
from fuzz.tests.conftest import CHECKOUT, Cli


def test_of_softmax_all_ways_are_measured_and_this_tool_finds_most(cli_here: Cli, tmp_path: Path) -> None:
    done = cli_here("detection", "--ops", "*softmax*", "--max-time", "15m", "--json", "found.json", app=app)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "found.json").read_text())
    scores = {each["way"]: each for each in record["scores"]}
    assert record["not_run"] == {}
    # Fixed tolerances on values that Hypothesis draws refuse right kernels too, as the page counts.
    assert {way for way, score in scores.items() if score["accused"]} <= {"assert_close, Hypothesis"}
    others = max(score["found"] for way, score in scores.items() if way != OURS)
    assert scores[OURS]["found"] > others
    assert {"softmax", "softmax_of_topk"} <= {each["op"] for each in record["sharpness"]}


def test_all_of_the_corpus_of_gpuemu_is_found_and_no_right_kernel_of_it_accused(cli_here: Cli, tmp_path: Path) -> None:
    words = ("detection", "--pack", str(CHECKOUT / "fuzz" / "quality" / "gpuemu"), "--controls", "--no-sharpness")
    done = cli_here(*words, "--json", "found.json", app=app)
    assert done.returncode == 0, done.stderr
    scores = {each["way"]: each for each in json.loads((tmp_path / "found.json").read_text())["scores"]}
    ours, close = scores[OURS], scores["assert_close"]
    assert (ours["found"], ours["bugs"], ours["accused"], ours["right"]) == (10, 10, 0, 16)
    assert close["found"] < 10
