"""The ops as the oracle judges them: those with an oracle written by hand, and all others by their formula."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Protocol, TypeVar

from oracles.budget import Term
from oracles.enclosure import Enclosure
from oracles.lanes import Screened
from oracles.numerics import BY_HAND
from oracles.precise import Bounds
from oracles.problem import Problem
from oracles.screen import Screens

MODULES: Mapping[str, tuple[str, str]] = {}
"""The module and class of each op whose oracle is written by hand."""
assert {*MODULES} == {*BY_HAND}
_BY_FORMULA = ("oracles.formula.problem", "FormulaProblem")
"""That of all others."""

_Promises = TypeVar("_Promises")


class OpProblem(Protocol[_Promises]):
    """One problem of one op. Canonical arrays are (rows, n), or flat for outputs without the axis of the rows."""

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

    def screens(self, contracts: Sequence[_Promises], structured: bool) -> Mapping[_Promises, Screens]:
        """Screens for some of these contracts."""

    def enclose(self, numerics: _Promises, structured: bool) -> Mapping[str, Enclosure]:
        """Fast tier: enclosures of all outputs of the problem."""

    def bounds(self, output: str, index: tuple[int, ...], numerics: _Promises, structured: bool) -> Bounds:
        """Precise tier: what one element (canonical index) may be, at mpmath's current working precision."""

    def terms(self, output: str, index: tuple[int, ...], numerics: _Promises, structured: bool) -> tuple[Term, ...]:
        """The budget of one element to first order, in units of the output."""

    def facts(
        self, output: str, index: tuple[int, ...], numerics: _Promises, structured: bool
    ) -> tuple[tuple[str, str], ...]:
        """Facts about the row of one element: name and text."""


def load(problem: Problem) -> OpProblem[Any]:
    """The op of `problem`, ready to judge it. Raises `ProblemError` for an unknown op or inputs that do not fit it."""
    return _class_of(problem.of_op.name)(problem)


@cache
def _class_of(op: str) -> Callable[[Problem], OpProblem[Any]]:
    module, name = MODULES.get(op, _BY_FORMULA)
    found: Callable[[Problem], OpProblem[Any]] = getattr(import_module(module), name)
    return found
