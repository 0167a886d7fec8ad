"""The plot of how far sums stray, and how far they may: `python3 -m fuzz.docs.plot > fuzz/docs/static/sums.svg`."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

_U = 2.0**-24
"""The unit roundoff of f32."""
_LAMBDA = 6.0
_LENGTHS = tuple(2**power for power in range(2, 19))
_ROWS = 32
_INK = "#808890"
"""A grey that is read on white and on black."""


def strayed(rows: NDArray[np.float32]) -> float:
    """How far the worst sum is off that adds one element after the other, in u times the sum of magnitudes. NaN where
    all are exact, which a logarithm has no place for."""
    sums = np.cumsum(rows, axis=-1, dtype=np.float32)[:, -1]
    exact = [math.fsum(row) for row in rows.astype(np.float64)]
    sizes = np.abs(rows.astype(np.float64)).sum(-1)
    return float(np.max(np.abs(sums - exact) / sizes)) / _U or math.nan


def squares(n: int) -> NDArray[np.float32]:
    """Rows of squares of normal values, whose rounding errors are random."""
    return np.square(np.random.default_rng(n).standard_normal((_ROWS, n), dtype=np.float32))


def constant(n: int) -> NDArray[np.float32]:
    """Rows of one value each, whose rounding errors all go the same way for long."""
    return np.repeat(np.random.default_rng(n).uniform(1, 2, (_ROWS, 1)).astype(np.float32), n, axis=1)


def svg() -> str:
    """The plot."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "kernelfuzz", "font.size": 11, "text.color": _INK})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.5))
    bounds: Sequence[tuple[str, Callable[[int], float], str]] = (
        ("worst case, h u", float, "#c04040"),
        ("statistical, 6 sqrt(h) u", lambda n: _LAMBDA * math.sqrt(n), "#3080d0"),
        ("assert_close, rtol = 1.3e-6", lambda n: 1.3e-6 / _U, "#909090"),
    )
    for name, bound, colour in bounds:
        axes.plot(_LENGTHS, [bound(n) for n in _LENGTHS], "--", color=colour, label=name)
    drawn = (("constant rows", constant, "#e08030"), ("squares of normal values", squares, "#30a060"))
    for name, rows, colour in drawn:
        axes.plot(_LENGTHS, [strayed(rows(n)) for n in _LENGTHS], "o-", color=colour, label=name)
    axes.set(xscale="log", yscale="log", xlabel="terms of the sum, n = h", ylabel="error, in u x sum of magnitudes")
    axes.tick_params(colors=_INK, which="both")
    axes.xaxis.label.set_color(_INK)
    axes.yaxis.label.set_color(_INK)
    for spine in axes.spines.values():
        spine.set_color(_INK)
    axes.legend(frameon=False)
    out = io.StringIO()
    figure.savefig(out, format="svg", transparent=True, bbox_inches="tight", metadata={"Date": None, "Creator": None})
    return out.getvalue()


if __name__ == "__main__":
    print(svg(), end="")
