"""Solutions of one problem, honest ones and ones that cheat, and how they are judged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from fuzz.tests.conftest import Cli

REFERENCE = """
import torch

def normalised(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w
"""
_NUMPY = "import numpy as np\n\n\n"
_RIGHT = """def kernel(rows, gain):
    with np.errstate(all="ignore"):
        return rows / np.sqrt((rows * rows).mean(-1, keepdims=True) + np.float32(1e-6)) * gain
"""
HONEST = {
    "right": _RIGHT,
    # A workspace that is kept, a cache by values, an output that is written.
    "workspace": """SPACE = np.empty(0, np.float32)
def kernel(x, w, y):
    global SPACE
    if SPACE.size < x.size:
        SPACE = np.empty(x.size, np.float32)
    squares = np.multiply(x, x, out=SPACE[: x.size].reshape(x.shape))
    with np.errstate(all="ignore"):
        y[...] = x / np.sqrt(squares.mean(-1, keepdims=True) + np.float32(1e-6)) * w
""",
}
CHEATS = {
    "zeros": "def kernel(x, w):\n    return np.zeros_like(x)\n",
    "input": "def kernel(x, w):\n    return x.copy()\n",
    "weight_left_out": _RIGHT.replace(" * gain", ""),
    "uninitialised": "def kernel(x, w):\n    return np.empty_like(x)\n",
    "nothing_written": "def kernel(x, w, y):\n    pass\n",
    "input_zeroed": "def kernel(x, w):\n    x[...] = 0\n    return np.zeros_like(x)\n",
    "all_nan": "def kernel(x, w):\n    return np.full_like(x, np.nan)\n",
    "exit_0": "import os\ndef kernel(x, w):\n    os._exit(0)\n",
    "exit_at_import": "import sys\nsys.exit(0)\ndef kernel(x, w):\n    pass\n",
    "prefix": _RIGHT.replace("(rows * rows)", "(rows * rows)[..., :64]"),
    "first_calls": """CALLS = 0
def kernel(x, w):
    global CALLS
    CALLS += 1
    with np.errstate(all="ignore"):
        y = x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-6)) * w
    return y if CALLS < 60 else np.zeros_like(x)
""",
    "half_precision": """def kernel(x, w):
    with np.errstate(all="ignore"):
        h = x.astype(np.float16).astype(np.float32)
        return h / np.sqrt((h * h).mean(-1, keepdims=True) + np.float32(1e-6)) * w
""",
    "the_answer_is_hunted": """import gc
def kernel(x, w):
    for each in gc.get_objects():
        if isinstance(each, np.ndarray) and each.shape == x.shape and each is not x and each.dtype == x.dtype:
            return each.copy()
    return x.copy()
""",
    "the_judge_is_patched": """import sys
for module in list(sys.modules.values()):
    if getattr(module, "__name__", "").startswith(("fuzz", "oracles", "numpy.testing")):
        for name in list(vars(module)):
            if name in ("compare", "judge", "assert_allclose", "changes"):
                setattr(module, name, lambda *given, **named: ())
def kernel(x, w):
    return x.copy()
""",
}


def judged(
    cli_here: Cli, folder: Path, sources: Mapping[str, str], *words: str, shapes: str = "x=... n, w=n",
    reference: str = REFERENCE,
) -> tuple[int, dict[str, Any]]:  # fmt: skip
    """Return the exit code and the ruling: of a reference in Python or JSON."""
    against = "ref.json" if reference.lstrip().startswith("{") else "ref.py"
    (folder / against).write_text(reference)
    for name, text in sources.items():
        (folder / f"{name}.py").write_text(text if "import " in text.partition("\n")[0] else _NUMPY + text)
    files = [f"{name}.py" for name in sources]
    done = cli_here("judge", *files, "--against", against, *(("--shapes", shapes) if shapes else ()), "--json", *words)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


class OfProblem(Protocol):
    """A solution, as a table has it."""

    @property
    def problem(self) -> str:
        """The name of its problem."""
        ...


def parts_of(solutions: Mapping[str, OfProblem], at_once: int) -> list[tuple[str, list[str]]]:
    """The names of solutions by problem, at most `at_once` together: a test judges each of these parts."""
    names: dict[str, list[str]] = {}
    for name, each in solutions.items():
        names.setdefault(each.problem, []).append(name)
    return [(problem, own[at : at + at_once]) for problem, own in names.items() for at in range(0, len(own), at_once)]
