"""Solutions that are right in the usual call only are found by other ways to make it; right ones are not accused."""

from __future__ import annotations

from pathlib import Path

from fuzz.tests.common.exploits import NUMPY, PROBLEMS
from fuzz.tests.common.solutions import HONEST, judged
from fuzz.tests.conftest import Cli


def test_what_is_right_in_the_usual_call_alone_is_wrong(cli_here: Cli, tmp_path: Path) -> None:
    """All exploits, and a hundred honest solutions, are tried at night."""
    source, shapes = PROBLEMS["norm"]
    tried = {name: NUMPY[name].text for name in ("cached_by_object", "old_pointer", "caller_named")}
    tried["workspace"] = "import numpy as np\n" + HONEST["workspace"]
    _, ruling = judged(
        cli_here, tmp_path, tried, "--seed", "7", "--no-shrink", "--trusted", "--max-cases", "120", shapes=shapes,
        reference=f"import torch\n\n\n{source}",
    )  # fmt: skip
    said = {each["solution"]: {failure["law"] for failure in each["failures"]} for each in ruling["solutions"]}
    # What measures a solution calls it too: an old pointer may show in the usual call by then.
    found = {"cached_by_object.py": "overwrite", "old_pointer.py": "fresh", "caller_named.py": "caller"}
    assert all(law in said[name] for name, law in found.items()), said
    assert said["workspace.py"] == set()
    assert ruling["solutions"][-1]["verdict"] == "right"
    assert min(ruling["probes"][each] for each in ("overwrite", "fresh", "caller")) > 0
