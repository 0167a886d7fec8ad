"""The throughput as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from fuzz.quality.pace import STAGES, Cost, Scaling


def draw(
    targets: Sequence[Cost], scaling: Sequence[Scaling], by_size: Mapping[tuple[int, int], Cost], path: Path
) -> None:
    """What a run takes by target and stage, what processes add, and how it grows. Raises ModuleNotFoundError without
    matplotlib."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 5), layout="constrained")
    stages, processes, sizes = figure.subplots(1, 3)
    below = [0.0] * len(targets)
    for stage in STAGES:
        taken = [cost.each(stage) * 1e6 for cost in targets]
        stages.barh([cost.what for cost in targets], taken, left=below, label=stage)
        below = [left + width for left, width in zip(below, taken, strict=True)]
    stages.invert_yaxis()
    stages.set(title="a judged run", xlabel="microseconds of a processor")
    stages.legend()
    counts = [each.processes for each in scaling]
    processes.plot(counts, [each.rate for each in scaling], marker=".", label="measured")
    processes.plot(counts, [scaling[0].rate * count for count in counts], "k--", label="that of one, times as many")
    processes.set(title="judged runs/s of one command", xlabel="processes", ylim=0)
    processes.legend()
    for rows in sorted({rows for rows, _ in by_size}):
        found = sorted((n, cost.total / cost.runs * 1e6) for (count, n), cost in by_size.items() if count == rows)
        sizes.loglog([n for n, _ in found], [taken for _, taken in found], marker=".", label=f"rows: {rows}")
    sizes.set(title="a judged run by its size", xlabel="n", ylabel="microseconds of a processor")
    sizes.legend()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "kernelfuzz"}):
        figure.savefig(path)
