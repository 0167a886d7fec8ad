"""Kernels whose first results take seconds begin with those before a search has to wait for them."""

from __future__ import annotations

from collections.abc import Iterable

from fuzz.adapters.target import Target
from fuzz.base.case import Case
from fuzz.base.kernel import Kernel
from fuzz.execute.pool import Batch, Pool
from fuzz.generate.plan import plan
from fuzz.generate.realise import realise
from fuzz.generate.sketch import Sketch, fitting_n


def warm_up(pool: Pool, targets: Iterable[Target]) -> list[Batch]:
    """Send each of `targets` whose kernel is declared slow a small case of every dtype, and wait for nothing.

    torch.compile takes a quarter of a minute before its first result. Nobody need look at what comes of these cases:
    the search gives such a kernel others, which are judged.
    """
    sent = []
    for target in targets:
        if target.kernel.slow:
            others = [name for name in pool.statuses if name != target.id]
            sent.append(pool.submit(_small_cases(target.kernel), without=others))
    return sent


def _small_cases(kernel: Kernel) -> list[Case]:
    capability = kernel.capability
    sketch = Sketch(capability, fitting_n(capability, 2), 2, 2, 1, odd=False, eps=1e-5, recipe="normal", seed=1)
    return [realise(plan(sketch, {"x dtype": dtype})) for dtype in capability.able.dtypes]
