"""What a passing check loads: nobody waits for what only a failure, a store or a cluster needs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

_CHECK = """
import json, sys
from pathlib import Path
import numpy as np
import fuzz

def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)

fuzz.check(softmax, op="softmax", capabilities=fuzz.Capabilities(empty=False), max_cases=8, seed=1)
ours = [each for name, each in sys.modules.items() if name.partition(".")[0] in ("fuzz", "oracles")]
lines = sum(len(Path(each.__file__).read_text().splitlines()) for each in ours)
print(json.dumps([lines, sorted(sys.modules)]), file=sys.stderr)
"""
_MOST_LINES, _MOST_MODULES = 36_650, 208
"""What a passing check loads of ours, as it was counted last; a change that needs more raises it and says why."""
_ABSENT = (
    "dask", "distributed", "sqlalchemy", "torch", "fuzz.extras", "fuzz.campaign.nightly", "fuzz.explain",
    "fuzz.findings.explainer", "fuzz.tasks.check.replay", "fuzz.references.derive", "fuzz.references.jaxprs",
    "fuzz.contracts",
    "fuzz.report.formats", "fuzz.core.adapters.pack", "fuzz.core.adapters.export", "fuzz.report.failure",
    "fuzz.core.laws.scaling", "fuzz.references.text", "oracles.ops.attention", "oracles.elementary.functions.sin",
    "fuzz.findings.casefile", "fuzz.campaign.search.process_executor", "fuzz.core.adapters.prototyped_kernel",
    "fuzz.core.execute.pool", "fuzz.core.transport.process", "fuzz.core.transport.sandbox", "fuzz.core.adapters.cuda",
    "fuzz.core.adapters.python_program", "fuzz.core.adapters.build", "fuzz.references.arrays", "fuzz.report.records",
    "fuzz.campaign.corpus", "fuzz.core.transport.python.probing", "fuzz.core.transport.python.device",
    "oracles.tiers.places", "oracles.breakdown", "oracles.formula.affine.recurrences", "unittest.mock",
)  # fmt: skip


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, list[str]]:
    """The lines of our modules in a process that has checked a softmax of NumPy, which passed, and all modules."""
    folder = tmp_path_factory.mktemp("check")
    (folder / "checked.py").write_text(_CHECK)
    done = subprocess.run([sys.executable, "checked.py"], cwd=folder, capture_output=True, text=True, check=True)
    lines, modules = json.loads(done.stderr.splitlines()[-1])
    return lines, modules


@pytest.fixture(scope="module")
def loaded(counted: tuple[int, list[str]]) -> frozenset[str]:
    return frozenset(counted[1])


def test_a_passing_check_loads_no_more_lines_than_it_did(counted: tuple[int, list[str]]) -> None:
    lines, modules = counted
    assert lines <= _MOST_LINES
    assert len([each for each in modules if each.partition(".")[0] in ("fuzz", "oracles")]) <= _MOST_MODULES


@pytest.mark.parametrize("name", _ABSENT)
def test_a_passing_check_of_a_function_of_numpy_does_not_load(name: str, loaded: frozenset[str]) -> None:
    assert "fuzz.tasks.check.check" in loaded
    assert [each for each in loaded if each == name or each.startswith(f"{name}.")] == []


def test_a_command_that_searches_here_loads_no_cluster_and_no_store(tmp_path: Path) -> None:
    command = "from fuzz.cli import main; main()"
    run = ["run", "--target", "numpy-softmax*", "--max-cases", "1", "--seed", "1"]
    tell = f"import sys\ntry:\n    {command}\nfinally:\n    print('sqlalchemy' in sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", tell, *run], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "False"
