"""`kernelfuzz derive` prints what is judged, as a module that declares it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fuzz.references.derive import derive
from fuzz.tests.conftest import Cli
from oracles.formula.trace import trace
from oracles.op import Op

_REFS = """
import torch
from beside import EPS

def unit(x, two):
    \"\"\"y = x two / |x|.\"\"\"
    size = (x * x).sum(-1, keepdim=True)
    return x * two / (size + EPS).sqrt()

def middle(x):
    return x.median(-1).values
"""


def test_what_is_printed_declares_the_op_that_is_judged(cli_here: Cli, tmp_path: Path) -> None:
    """It is run as it stands; files beside that of the function are found."""
    (tmp_path / "refs.py").write_text(_REFS)
    (tmp_path / "beside.py").write_text("EPS = 0.5\n")
    place = f"{tmp_path / 'refs.py'}:unit"
    done = cli_here("derive", place, "--shapes", "x=b n, two=b n", "--fixed", "n=4")
    assert done.returncode == 0, done.stderr
    space: dict[str, Any] = {}
    exec(done.stdout, space)
    [op] = space["OPS"]
    assert isinstance(op, Op)
    assert op.fixed == {"n": 4}
    exec(_REFS.replace("from beside import EPS", "EPS = 0.5"), space)
    judged = derive(space["unit"], "x=b n, two=b n", fixed={"n": 4}).op
    graphs = [trace(each.formula, {"x": ("b", "n"), "two": ("b", "n")}) for each in (op, judged)]
    kinds = [[(node.kind, node.label, node.value) for node in graph.nodes] for graph in graphs]
    assert kinds[0] == kinds[1]
    assert "size" in graphs[0].locals


def test_what_cannot_be_read_is_one_line(cli_here: Cli, tmp_path: Path) -> None:
    (tmp_path / "refs.py").write_text(_REFS)
    (tmp_path / "beside.py").write_text("EPS = 0.5\n")
    done = cli_here("derive", f"{tmp_path / 'refs.py'}:middle")
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == "kernelfuzz: reference middle cannot be read: aten.median (refs.py line 11) has no formula\n"
    done = cli_here("derive", f"{tmp_path / 'refs.py'}:missing")
    assert "has no function 'missing'; it has unit, middle" in done.stderr
