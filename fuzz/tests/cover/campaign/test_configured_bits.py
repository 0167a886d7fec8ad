"""What configurations of one kernel return is compared bit by bit, which accuses nobody."""

from __future__ import annotations

from pathlib import Path

import fuzz
from fuzz.campaign.search.examiner import Examiner
from fuzz.core.adapters.python_kernel import PythonKernel
from fuzz.core.adapters.registry import expand
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.generate.balanced import sized_cases
from fuzz.core.laws.registry import Entry


def test_the_bits_of_configurations_are_compared_and_accuse_nobody(tmp_path: Path, cache: Path) -> None:
    """One adds a row from its end: that is another order of the same sum."""
    text = "import numpy as np\n\n\ndef row_sum(x, step, way):\n    return x[..., ::step].cumsum(-1)[..., -1]\n"
    (tmp_path / "sums.py").write_text(text)
    able = fuzz.Capabilities(empty=False)
    steps = ({"step": 1, "way": "a"}, {"step": 1, "way": "b"}, {"step": -1, "way": "c"})
    kernel = PythonKernel("sums", "row_sum", tmp_path / "sums.py", "numpy", capabilities=able, configs=steps)
    targets = expand([kernel])
    entries = [Entry(case) for case in sized_cases(kernel.capability, 1)]
    with WorkerPool(targets, cache=cache) as pool:
        examiner = Examiner(pool, targets)
        [found] = examiner.examined([entries], examiner.submit(entries))
    assert not found.sightings
    counts = {line.target.rpartition("=")[2]: dict(line.alike) for line in found.tally.targets.values()}
    assert counts["a"] == {}, "the others are held against it"
    assert counts["b"] == {"same": len(entries)}
    assert counts["c"]["other"] > 0
