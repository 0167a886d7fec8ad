"""`kernelfuzz show` prints all that is known of a finding, and runs nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from fuzz.findings.casefile import FoundRecord, save
from fuzz.findings.codec import decoded
from fuzz.report.words import PHRASES
from fuzz.tests.common.hunting import given_case
from fuzz.tests.common.told import NOTHING
from fuzz.tests.conftest import Cli, edited

Planted = Callable[..., Path]
_TAIL_OFF = edited("y[i] = x[i] * rstd;", "y[i] = x[i] * rstd * (n % 16 == 15 ? 1.5f : 1.0f);")


def test_the_first_lines_name_it_and_it_says_the_rest(cli_here: Cli, planted: Planted, tmp_path: Path) -> None:
    found = cli_here("run", "--pack", str(planted(_TAIL_OFF)), "--max-cases", "64", "--seed", "1", "--no-shrink")
    [line] = [line for line in found.stdout.splitlines() if "kernelfuzz show " in line]
    command = line.partition("kernelfuzz show ")[2].split()
    assert "budget " not in found.stdout
    again = cli_here("repro", *command)
    first = found.stdout[found.stdout.index("FAIL  planted") :].partition("\n  next: ")[0]
    assert again.stdout.startswith(first), "the same first lines, now as before"
    (tmp_path / "pack-planted" / "planted.c").unlink()  # nothing is built or run
    shown = cli_here("show", *command)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("FAIL  planted  ")
    assert f"everything: kernelfuzz show {command[0]}" in found.stdout
    assert "everything: " not in shown.stdout, "this is everything"
    assert f"to paste: kernelfuzz show {' '.join(command)} --snippet" in shown.stdout
    for label in ("op", "values", "failing", "got", "expected", "allowed", "budget", "reproduce", "as found"):
        assert re.search(rf"^  {label} ", shown.stdout, re.MULTILINE), label
    as_data = cli_here("show", *command, "--json")
    told = decoded(json.loads(as_data.stdout))
    assert (told.kernel, told.worst is not None) == ("planted", True)


def test_a_file_without_explanation_is_one_line(cli_here: Cli, tmp_path: Path) -> None:
    save(tmp_path / "case.json", given_case((1, 3), 1), FoundRecord("c-generic@native:gcc-O2", "FAIL_NUMERIC", 1, "0"))
    done = cli_here("show", "case.json")
    assert done.returncode == 4
    assert done.stderr == "kernelfuzz: case.json: holds no explanation; kernelfuzz repro case.json runs it\n"


def test_a_snippet_says_all_by_itself(cli_here: Cli, tmp_path: Path) -> None:
    """Its lines of Python make the inputs bit for bit, with NumPy alone."""
    case, told = given_case((1, 3), 1), replace(NOTHING, kernel="planted", op="rms_norm")
    save(tmp_path / "case.json", case, FoundRecord("c-planted@native:gcc-O2", "FAIL_NUMERIC", 1, "0", explanation=told))
    done = cli_here("show", "case.json", "--snippet")
    assert done.returncode == 0, done.stderr
    title, *lines = done.stdout.splitlines()
    assert title.startswith(f"**planted: {PHRASES[NOTHING.verdict]}** (kernel.c, ")
    assert len(lines) <= 10
    start, end = lines.index("```python"), lines.index("```")
    names: dict[str, np.ndarray] = {}
    exec("\n".join(lines[start + 1 : end]), names)
    assert names["x"].tobytes() == case.inputs["x"].bits
    assert names["eps"] == case.params["eps"]
    assert lines[end - 1].startswith("# planted(x, eps): ")
    assert lines[-1].endswith(f", op rms_norm, c-kernel@native, case {case.digest[:12]}")
