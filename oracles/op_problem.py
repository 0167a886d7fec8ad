"""The ops that the oracle knows. A new op is one module and one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Protocol

from oracles.budget import Term
from oracles.enclosure import Enclosure
from oracles.lanes import Screened
from oracles.numerics import Numerics
from oracles.precise import Bounds
from oracles.problem import Problem, ProblemError
from oracles.screen import Screens

MODULES: Mapping[str, tuple[str, str]] = {
    "rms_norm": ("oracles.rms_norm", "RmsNorm"),
    "fused_add_rms_norm": ("oracles.fused_add_rms_norm", "FusedAddRmsNorm"),
    "rms_norm_backward": ("oracles.rms_norm_backward", "RmsNormBackward"),
    "fused_add_rms_norm_backward": ("oracles.rms_norm_backward", "FusedAddRmsNormBackward"),
}
"""The module and class of each op."""


class OpProblem(Protocol):
    """One problem of one op. Canonical arrays are (rows, n), or flat for outputs without the normalised axis."""

    axis: int
    """The normalised axis, counted from the front."""

    @property
    def screened(self) -> Screened | None:
        """The same for batches; None where the op has no screens."""

    def shape(self, output: str) -> tuple[int, ...]:
        """Shape of an output as the kernel returns it."""

    def cost(self, output: str) -> int:
        """Elements that the precise tier reads to judge one element of `output`."""

    def has_axis(self, output: str) -> bool:
        """Whether the output has the normalised axis."""

    def screens(self, contracts: Sequence[Numerics], structured: bool) -> Mapping[Numerics, Screens]:
        """Screens for some of these contracts."""

    def enclose(self, numerics: Numerics, structured: bool) -> Mapping[str, Enclosure]:
        """Fast tier: enclosures of all outputs of the problem."""

    def bounds(self, output: str, index: tuple[int, ...], numerics: Numerics, structured: bool) -> Bounds:
        """Precise tier: what one element (canonical index) may be, at mpmath's current working precision."""

    def terms(self, output: str, index: tuple[int, ...], numerics: Numerics, structured: bool) -> tuple[Term, ...]:
        """The budget of one element to first order, in units of the output."""

    def facts(
        self, output: str, index: tuple[int, ...], numerics: Numerics, structured: bool
    ) -> tuple[tuple[str, str], ...]:
        """Facts about the row of one element: name and text."""


def load(problem: Problem) -> OpProblem:
    """The op of `problem`, ready to judge it. Raises `ProblemError` for an unknown op or inputs that do not fit it."""
    if problem.op not in MODULES:
        raise ProblemError(f"op: unknown op {problem.op!r}; known: {', '.join(MODULES)}")
    return _class_of(problem.op)(problem)


@cache
def _class_of(op: str) -> Callable[[Problem], OpProblem]:
    module, name = MODULES[op]
    found: Callable[[Problem], OpProblem] = getattr(import_module(module), name)
    return found
