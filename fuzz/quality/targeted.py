"""The search as Hypothesis would guide it: each example is a case, judged at once, and its score is a target.

No run uses it: every example waits until the one before it is judged, so that nothing can be run in batches, and none
of its cases fills a hole of the coverage. `python3 -m fuzz.quality guidance` compares it with `fuzz.uses.search.guide`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from hypothesis import HealthCheck, Phase, given, seed, settings, target
from hypothesis import strategies as st

from fuzz.base.case import Case
from fuzz.base.kernel import Kernel, capabilities_of
from fuzz.generate.changes import filled
from fuzz.generate.plan import plan
from fuzz.generate.realise import realise
from fuzz.generate.search import StopSearch
from fuzz.generate.sketch import Sketch, sketches

_EXAMPLES = 200
"""of a round: Hypothesis draws half of them, then climbs from the best for each label."""


def targeted(
    op: str, run_seed: int, score: Callable[[Case], Mapping[str, float]], kernels: Iterable[Kernel] = ()
) -> None:
    """Give cases of `op` to `score`, one by one, until it raises StopSearch; what it returns by label is climbed."""
    strategy = sketches(capabilities_of(kernels, op))

    def one_case(sketch: Sketch, full: bool) -> None:
        draw = plan(sketch)
        for label, value in score(realise(filled(draw) if full else draw)).items():
            target(value, label=label)

    quiet = settings(
        max_examples=_EXAMPLES,
        database=None,
        derandomize=False,
        deadline=None,
        phases=[Phase.generate, Phase.target],
        suppress_health_check=list(HealthCheck),
    )
    round_number = 0
    try:
        while True:
            test = given(strategy, st.booleans())(one_case)
            quiet(seed(1_000_003 * run_seed + round_number)(test))()
            round_number += 1
    except StopSearch:
        return
