"""An op of a user's own pack under its laws, and a script of its kernel in Python."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz.tests.common.own_pack import ARGUMENTS, PYTHON_KERNEL, RIGHT, WRONG, unknown_afterwards, write_pack
from fuzz.tests.common.told import told_in, when
from fuzz.tests.conftest import Cli


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    with unknown_afterwards():
        yield


def test_a_python_kernel_of_it_has_a_script_of_its_own(tmp_path: Path, cli_here: Cli) -> None:
    write_pack(tmp_path, python=PYTHON_KERNEL.replace("* gate", "* gate * np.float32(1.5)"))
    done = cli_here("run", *ARGUMENTS, "-v", "--explain-time", "300s", "--max-cases", "200")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAIL  bent-numpy  " in done.stdout, done.stdout
    assert "gate = there" in [when(each) for each in told_in(tmp_path / "findings")]
    found = next(path for path in (tmp_path / "findings").glob("*.json") if "numeric" in path.name)
    cli_here("repro", str(found), "--pack", ".", "--target", "numpy*", "--script", "shown.py")
    shown = subprocess.run([sys.executable, "shown.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (shown.returncode, shown.stdout.splitlines()[-1]) == (1, "FAILED"), shown.stdout + shown.stderr


def test_a_bug_is_shrunk_and_explained_and_shown_by_a_script(tmp_path: Path, cli_here: Cli) -> None:
    write_pack(tmp_path, WRONG)
    done = cli_here("run", *ARGUMENTS, "-v", "--explain-time", "300s", "--max-cases", "48", "--seed", "3")
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search("fails when +n >= 6, unless values or a coarse dtype hide it", done.stdout), done.stdout
    assert "signal        T([1, 6], f32" in done.stdout, "no smaller case fails"
    assert "  column mod 8 = 5, in bent" in done.stdout
    [found] = (tmp_path / "findings").glob("*.json")
    again = cli_here("repro", str(found), *ARGUMENTS[:2], "--target", "*O2", "--script", "shown.c")
    assert again.returncode == 1
    subprocess.run(["gcc", "-std=gnu11", "shown.c", "-o", "shown", "-lm"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "shown"], capture_output=True, text=True, check=False).stdout.endswith("FAILED\n")


def test_every_law_that_its_kernels_declare_is_compared(tmp_path: Path, cli_here: Cli) -> None:
    laws = ("rerun", "row_permutation", "batch_subset", "batch_append", "scaling", "sign_flip", "in_place", "alignment")
    text = (write_pack(tmp_path) / "pack.py").read_text()
    (tmp_path / "pack.py").write_text(
        text.replace('HERE / "bent.c", ', f'HERE / "bent.c", laws={laws!r}, ')
        .replace("parameters=", "scaling={'signal': 1, 'offset': 1, 'bent': 1}, parameters=", 1)
        .replace("neutral=0.0, ", "neutral=0.0, power=1, ")
        .replace("scaling=", "flips=(Flip(('signal', 'offset'), ('bent',)),), scaling=", 1)
    )
    done = cli_here("run", *ARGUMENTS, "--max-cases", "10")
    assert done.returncode == 4
    assert "leaky_gate: flips: with signal, offset negated bent is another number" in done.stderr
    text = (tmp_path / "pack.py").read_text().replace("* gate + floor", "* gate")
    (tmp_path / "pack.py").write_text(text)
    done = cli_here("run", *ARGUMENTS, "--max-cases", "10")
    assert done.returncode == 4
    assert "bent needs zeros=True" in done.stderr
    (tmp_path / "pack.py").write_text(text.replace("('bent',))", "('bent',), zeros=True)"))
    (tmp_path / "bent.c").write_text(RIGHT.replace("* gate[i] + call->floor", "* gate[i]"))
    done = cli_here("run", *ARGUMENTS, "--max-cases", "1500", "--target", "*O2", "--json", "all.jsonl")
    assert done.returncode == 0, done.stdout + done.stderr
    records = map(json.loads, (tmp_path / "all.jsonl").read_text().splitlines())
    assert {*laws} <= {record.get("law") for record in records}
