"""The exact value is the unrounded one in every format, and what must be is that, rounded once."""

from __future__ import annotations

import json
import re
from pathlib import Path

import mpmath
import numpy as np

from fuzz.core.base.dtypes import numbers
from fuzz.findings import casefile
from fuzz.tests.common.own_pack import unknown_afterwards
from fuzz.tests.conftest import Cli

_PACK = """from pathlib import Path

from fuzz import Op, Operand, Parameter, PythonKernel
from fuzz import formula as f


def apart(a, b, *, eps):
    d = a - b
    return {"y": f.total(d * d, "n") + eps}


N, ROWS = "... n", (Operand("y", "..."),)
OPS = (Op(apart, (Operand("a", N), Operand("b", N)), ROWS, (Parameter("eps", (0.1, 1e-5)),)),)
HERE = Path(__file__).parent
KERNELS = (PythonKernel("apart", "apart", HERE / "apart.py", "numpy"),)
"""
_KERNEL = """import numpy as np


def apart(a, b, *, eps):
    d = a.astype(np.float64) - b
    off = np.where((d != d.astype(np.float32)).any(-1), 1.5, 1.0)
    return (((d * d).sum(-1) + eps) * off).astype(np.float32)
"""


def test_every_format_says_the_unrounded_value(tmp_path: Path, cli_here: Cli) -> None:
    (tmp_path / "pack.py").write_text(_PACK)
    (tmp_path / "apart.py").write_text(_KERNEL)
    with unknown_afterwards():
        words = "--seed", "1", "-j", "1", "--max-cases", "20", "--no-shrink", "--report", "json=report.json"
        done = cli_here("run", "--pack", ".", *words)
        assert done.returncode == 1, done.stderr
        [path] = (tmp_path / "findings").glob("*.json")
        shown = cli_here("show", str(path), "--pack", ".").stdout
        assert cli_here("repro", str(path), "--pack", ".", "--script", "program.py").returncode == 1
        case = casefile.parsed_case(json.loads(path.read_text()))
    [problem] = json.loads((tmp_path / "report.json").read_text())["problems"]
    worst = problem["explanation"]["worst"]
    a, b = (numbers(each.bits, each.dtype, each.layout.shape) for each in (case.inputs["a"], case.inputs["b"]))
    with mpmath.workprec(400):
        row = list(zip(*(each[tuple(worst["index"])].tolist() for each in (a, b)), strict=True))
        exact = mpmath.fsum((mpmath.mpf(one) - other) ** 2 for one, other in row) + case.params["eps"]
        rounded = mpmath.fsum(mpmath.mpf(float(np.float32(one - other))) ** 2 for one, other in row)
        assert rounded + case.params["eps"] != exact, "f32 rounds the difference"
        said = mpmath.nstr(exact, 30)
        nearest = np.float32(float(exact))
    assert float(nearest) != float(exact), "that it is unrounded shows"
    assert worst["exact"].startswith(said[:26])
    assert worst["expected"]["bits"] == f"0x{nearest.view(np.uint32):08x}"
    assert re.search(rf"\n *exact +{re.escape(worst['exact'])}\n", shown)
    for text in (done.stdout, shown):
        assert worst["expected"]["decimal"] in text
    flat = int(np.ravel_multi_index(worst["index"], a.shape[:-1]))
    [(low, high)] = re.findall(rf"\n +\({flat}, ([^ ]+), ([^ ]+), \d+\),", (tmp_path / "program.py").read_text())
    assert float(low) <= nearest <= float(high)
