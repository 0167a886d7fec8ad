"""Single elements of a problem, in the precise tier: their bounds, and the explanation of these bounds."""

from __future__ import annotations

import numpy as np

from oracles.budget import Term
from oracles.doubledouble import F64
from oracles.enclosure import Mask, Worst
from oracles.formula.contract import Contract
from oracles.formula.exact.centre import Exact, Inputs
from oracles.operand import OUTER
from oracles.precise import Bounds
from oracles.tiers.problem import FormulaProblem
from oracles.tiers.union import Union

_ROWS_KEPT = 64
"""The most single rows whose conformance is kept."""


class Elements:
    """The elements of a problem's outputs. Indices are into the canonical arrays."""

    def __init__(self, problem: FormulaProblem) -> None:
        self.problem = problem
        self._rows: dict[tuple[Contract, bool, int], Union] = {}

    def bounds(
        self, output: str, index: tuple[int, ...], contract: Contract, structured: bool, *, once: bool = False
    ) -> Bounds:
        """Return the bounds of one element, at mpmath's current working precision. With `once` its exact value, rounded
        once, is allowed too."""
        conformance, index = self._of_element(output, index, self.problem.settled(contract), structured)
        return conformance.bounds(output, index, once=once)

    def decided(
        self, output: str, row: int, got: F64, contract: Contract, structured: bool
    ) -> tuple[slice, Mask, Mask]:
        """Return the part of an output, as a slice of its first axis, that is decided together with a row, and two
        masks of the elements there: those that certainly conform, and those that certainly fail, by `bounds` with
        `once`. This needs no mpmath."""
        conformance, _ = self._of_element(output, (row,), self.problem.settled(contract), structured)
        part = slice(row, row + 1) if self.problem.plain.separate else slice(None)
        with np.errstate(all="ignore"):
            return part, *conformance.decided(output, got[part])

    def contradiction(
        self, output: str, index: tuple[int, ...], contract: Contract, structured: bool, worst: Worst, bounds: Bounds
    ) -> str:
        """Return text about a contradiction between both tiers' numbers for an element; "" if there is none."""
        conformance, index = self._of_element(output, index, self.problem.settled(contract), structured)
        return conformance.contradiction(output, index, worst, bounds)

    def terms(self, output: str, index: tuple[int, ...], contract: Contract, structured: bool) -> tuple[Term, ...]:
        """Return the terms of one element's budget to first order, in units of the output, by locals of the formula."""
        from oracles.tiers.terms import terms_of

        conformance, index = self._of_element(output, index, self.problem.settled(contract), structured)
        widest = conformance.widest(output, index)
        return () if widest.has_places(output) else terms_of(widest, output, index)

    def facts(
        self, output: str, index: tuple[int, ...], contract: Contract, structured: bool
    ) -> tuple[tuple[str, str], ...]:
        """Return pairs of name and text: the problem's extents, and exact values that the element shares."""
        from oracles.tiers.terms import facts_of

        conformance, at = self._of_element(output, index, self.problem.settled(contract), structured)
        op, sizes = self.problem.of_op, self.problem.sizes
        own = [dim for dim in sizes if dim in op.operand(output).axes]
        place = {dim: index for dim, index in zip(own, at, strict=bool(own)) if dim != op.row}
        known = [(dim, str(size)) for dim, size in sizes.items() if dim != OUTER]
        known += [(op.batch_name, str(sizes[OUTER]))] if OUTER in sizes else []
        return *known, *facts_of(conformance.members[0], place, sizes)

    def given(
        self, output: str, index: tuple[int, ...], contract: Contract, structured: bool
    ) -> tuple[tuple[str, str], ...]:
        """Return, as pairs of name and text, the elements of operands from which one element is calculated."""
        from oracles.tiers.terms import given_of

        conformance, at = self._of_element(output, index, self.problem.settled(contract), structured)
        return given_of(conformance.members[0], output, at)

    def _of_element(
        self, output: str, index: tuple[int, ...], contract: Contract, structured: bool
    ) -> tuple[Union, tuple[int, ...]]:
        """Return the conformance that bounds one element, and the element's index in it. If rows are separate, it is
        the conformance of the element's row alone."""
        if self.problem.plain.separate:
            key = contract, structured, index[0]
            if key not in self._rows:
                if len(self._rows) >= _ROWS_KEPT:
                    self._rows.clear()
                row, exact = self.problem.rows_of(slice(index[0], index[0] + 1)), self._exact_row(index[0])
                self._rows[key] = self.problem.conformance(contract, structured, row, exact)
            return self._rows[key], (0, *index[1:])
        return self.problem.whole(contract, structured), index

    def _exact_row(self, row: int) -> Exact:
        for (_, _, known), conformance in self._rows.items():
            if known == row and conformance.members[0].exact is not None:
                return conformance.members[0].exact
        return Exact(
            Inputs(self.problem.plain.trace, self.problem.rows_of(slice(row, row + 1)), self.problem.parameters)
        )
