"""A problem as the tiers judge it: by the formula of its op.

Canonical arrays have an axis for each dimension (`oracles.problem`). If the only dimensions are "..." and that of
the row, and no value depends on another row, each row is evaluated by itself. Columns are then repeated for each row,
so that a row has the same result by itself, in its problem, and joined with rows of other problems. Other problems are
evaluated as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.algorithm import is_addend
from oracles.doubledouble import F64
from oracles.dtypes import SINGLE, form, point_form
from oracles.enclosure import Enclosure, Mask, concatenated
from oracles.formula.affine.read import bits_of
from oracles.formula.affine.setting import ALONE, Joined
from oracles.formula.contract import ALL, MAYBE, Contract
from oracles.formula.exact.centre import Exact, Inputs
from oracles.formula.exact.lengths import BESIDE
from oracles.lazy import lazy
from oracles.operand import OUTER
from oracles.problem import Arrangement, Problem, ProblemError
from oracles.rounding import name_of
from oracles.tiers.conformance import Conformance
from oracles.tiers.near import Nearest
from oracles.tiers.plan import FormulaPlan, planned
from oracles.tiers.prepared import PreparedFormula, prepared
from oracles.tiers.union import Union, joined
from oracles.tiers.values import dependent

_CHUNK = 1 << 15
"""The elements of the first input that are enclosed at once: intermediate values fit into a processor's caches."""
_KEPT = 1 << 20
"""The most elements of an array with all dimensions for which values of a problem that is not divided are kept."""


class FormulaProblem:
    """One problem of an op. Values that do not depend on a contract are computed once and shared by all kernels."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.of_op, self.axis = problem, problem.of_op, problem.axis
        shapes = {name: array.shape for name, array in problem.inputs.items()}
        self.arrangement = Arrangement(self.of_op, shapes, self.axis)
        extents = self.arrangement.sizes
        self.length, self.rows = extents[self.of_op.row], extents[OUTER]
        known = [each.name for each in self.of_op.outputs]
        for output in problem.outputs:
            if output not in known:
                raise ProblemError(f"outputs.{output}: {problem.op} has no such output")
        self.parameters = self._given_parameters()
        self._stacked = frozenset(
            name for name, array in problem.inputs.items() if name in self.of_op.columns and array.ndim == 2
        )
        self._present = frozenset((*problem.inputs, *problem.outputs, *self.parameters))
        self.tensors = {name: self._canonical(name, array) for name, array in problem.inputs.items()}
        self._nearest: dict[object, Nearest] = {}
        self._settled: dict[Contract, Contract] = {}

    @lazy
    def alike(self) -> tuple[Hashable, Hashable]:
        """Return two keys, each equal for problems that may be joined. The first is for problems with equal parameters
        and equal lengths, or equal extents if rows depend on each other. The second is for problems that are filled up:
        it tells which reduced dimensions have a single element."""
        dtypes = tuple((name, name_of(array.dtype)) for name, array in self.problem.inputs.items())
        outputs = tuple((each.name, self._dtypes[each.name]) for each in self.of_op.outputs)
        own = self.of_op.name, dtypes, frozenset(self.plain.trace.nodes), outputs
        sizes = self.in_order
        single = tuple(self.sizes[dim] == 1 for dim in sorted(self.plain.reduced))
        return (own, sizes, tuple(self.parameters.items())), (own, single)

    @lazy
    def plain(self) -> PreparedFormula:
        """Return the op's own formula, prepared."""
        return prepared(self.of_op, self._present, self._stacked, ())

    def formulas(self, contract: Contract, joined: Joined = ALONE) -> list[PreparedFormula]:
        """Return the prepared formula for each combination of algorithms that the contract allows."""
        present = self._present.union(joined.outputs)
        if contract.follows and present == self._present and not joined.beside:
            return [self.plain]
        # An op that calculates outputs from returned ones lacks some locals that a kernel's contract names.
        known = contract.algorithm if self.problem.known is None else self.of_op.algorithms
        each = dict.fromkeys(
            tuple(sorted((local, way) for local, way in algorithm.items() if local in known or local == ALL))
            for algorithm in contract.algorithms
        )
        found = (prepared(self.of_op, present, self._stacked, algorithm, joined.beside) for algorithm in each)
        ways = [*{id(way.trace): way for way in found}.values()]  # algorithms of absent locals change nothing
        if len(ways) > 1 and self._holds_numbers(self.settled(contract)):
            first = dict[Hashable, PreparedFormula]()
            for way in ways:
                first.setdefault(way.of_numbers, way)
            return [*first.values()]
        return ways

    def _holds_numbers(self, contract: Contract) -> bool:
        """Whether all tensors have elements, which are finite in every dtype that a settled contract names."""
        dtypes = (contract.compute, *contract.dtypes.values(), *contract.points.values())
        return self._greatest <= min(point_form(each.removeprefix(MAYBE)).max for each in dtypes)

    @lazy
    def _greatest(self) -> float:
        """Return the greatest magnitude in any input; NaN if an element is NaN, or if some extent is 0."""
        if not all(self.arrangement.sizes.values()):
            return math.nan
        found = (np.abs(array.astype(np.float64)).max() for array in self.problem.inputs.values())
        return float(np.max([0.0, *found]))  # unlike Python's max, it is NaN if one is

    def plan(self, contract: Contract, structured: bool) -> FormulaPlan | None:
        """Return the plan by which a screen judges the problem; None if it cannot."""
        if len(self.formulas(contract)) > 1:  # depends on values: not for shared plans
            return None
        plans = self._plans[structured]
        if contract not in plans:
            plans[contract] = self._planned(contract, structured)
        return plans[contract]

    def _planned(self, contract: Contract, structured: bool) -> FormulaPlan | None:
        (formula,) = self.formulas(contract)
        if not all(self.arrangement.sizes.values()):
            return None
        (tensors, outputs, zeros), settled = self._screened, self.settled(contract)
        return planned(FormulaPlan(formula.trace, settled, structured, dict(tensors), dict(outputs), frozenset(zeros)))

    @lazy
    def _plans(self) -> Sequence[dict[Contract, FormulaPlan | None]]:
        """Return plans by contract, for unstructured and structured problems; shared if `_screened` is equal."""
        has_elements = all(self.arrangement.sizes.values())
        keys = ((has_elements, structured, self._screened) for structured in (False, True))
        return [self.plain.plans.setdefault(key, {}) for key in keys]

    def nearest(self, plan: FormulaPlan) -> Nearest:
        """Return the problem's outputs as exact values, rounded once."""
        key = id(plan.trace), plan.key, plan.contract.denormals != "preserve"
        if key not in self._nearest:
            inputs = Inputs(plan.trace, self.tensors, self.parameters)
            shapes = {}
            for name in plan.outputs:
                dims = self.of_op.operand(name).axes
                shapes[name] = tuple(inputs.extents[dim] if dim in dims else 1 for dim in plan.trace.dims)
            self._nearest[key] = Nearest(inputs, plan, shapes)
        return self._nearest[key]

    @lazy
    def _screened(self) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...], tuple[str, ...]]:
        """Return the properties on which plans depend: dtypes of inputs and outputs, and which parameters are 0."""
        inputs = ((name, name_of(array.dtype)) for name, array in self.problem.inputs.items())
        zeros = (name for name, value in self.parameters.items() if not value)
        return tuple(inputs), tuple(self.problem.outputs.items()), tuple(zeros)

    def joins_orders(self, contract: Contract) -> bool:
        """Whether the problem may be judged together with others whose contracts differ in the orders of sums alone."""
        return all(each.joins_orders for each in self.formulas(contract))

    def numbers(self, contract: Contract) -> Hashable:
        """Return a key that is equal for problems that are evaluated alike although their lengths or parameters differ.
        It covers all algorithms: one may multiply by the length although the op's own formula does not."""
        ways, bits = self.formulas(contract), dict[str, int]()
        if matter := frozenset[str]().union(*(each.calculates_with for each in ways)):
            sizes = {"": self.length} if self.plain.separate else {dim: self.sizes[dim] for dim in sorted(matter)}
            bits = {dim: bits_of(size) for dim, size in sizes.items()}
        zeros, others = (frozenset[str]().union(*each) for each in zip(*(way.depends_on for way in ways), strict=True))
        nothing = frozenset(name for name in zeros if not self.parameters[name])
        return nothing, *(bits_of(self.parameters[name]) for name in sorted(others)), *bits.values()

    def joins_lengths(self, contract: Contract) -> bool:
        """Whether problems with other lengths, parameters and `structured` can be joined. In double-double, or if a
        count is inverted in few bits, all rows of an array must have one length."""
        contract = self.settled(contract)
        inverts = (
            contract.mean == "reciprocal"
            and min(form(each).precision for each in (contract.compute, *contract.dtypes.values())) < SINGLE.precision
        )
        return not (contract.is_wide or inverts) and all(each.joins_lengths for each in self.formulas(contract))

    def settled(self, contract: Contract) -> Contract:
        """Return the contract settled for the dtypes of this problem's operands."""
        if (found := self._settled.get(contract)) is None:
            found = self._settled[contract] = contract.settled(self._given, self._dtypes)
        return found

    @lazy
    def _given(self) -> Mapping[str, str]:
        """Return the dtypes of the inputs that are present."""
        return {name: dtype for name, dtype in self._dtypes.items() if name in self.problem.inputs}

    @lazy
    def _dtypes(self) -> Mapping[str, str]:
        """Return the dtypes of all operands, the first input first; absent operands have their usual dtype."""
        known = {name: name_of(array.dtype) for name, array in self.problem.inputs.items()} | {**self.problem.outputs}
        main, found = name_of(self.problem.main.dtype), dict[str, str]()
        for each in self.of_op.operands:
            usual = found.get(each.dtype, each.dtype) or main
            found[each.name] = known.get(each.name, usual)
        return found

    def shape(self, output: str) -> tuple[int, ...]:
        """Return the shape of an output as the kernel returns it."""
        return self.arrangement.shape(output)

    def arranged(self, output: str, array: NDArray[Any]) -> NDArray[Any]:
        """Return an output in canonical shape."""
        return self.arrangement.arranged(output, array, self.plain.trace.dims)

    def returned(self, output: str, values: NDArray[Any]) -> NDArray[Any]:
        """Return an output as a kernel returns it, from values with an axis for each dimension of the formula."""
        return self.arrangement.returned(output, values, self.sizes)

    def following(self, unknown: Mapping[str, Mask]) -> Mapping[str, Mask]:
        """Return masks, by output and in canonical shape, of elements that depend on unknown elements of inputs."""
        inputs = Inputs(self.plain.trace, self.tensors, self.parameters)
        masks = replace(inputs, tensors={name: self._canonical(name, mask) for name, mask in unknown.items()})
        leaves = {node.label: node for node in inputs.trace.nodes if node.kind == "tensor"}
        found = dependent(inputs, {leaves[name]: masks.leaf(leaves[name]) != 0 for name in unknown})
        outputs = {name: self.returned(name, found[inputs.trace.outputs[name]]) for name in self.problem.outputs}
        return {name: self.arranged(name, mask) for name, mask in outputs.items()}

    def place(self, output: str, flat: int) -> tuple[int, ...]:
        """Return the index into the output as returned, for a flat index into the canonical array."""
        return self.arrangement.place(output, flat, self.plain.trace.dims)

    def cost(self, output: str) -> int:
        """Return the number of elements that the precise tier reads to judge one element of `output`."""
        own, meeting = self.of_op.operand(output).axes, self.plain.trace.meeting
        return math.prod(size for dim, size in self.sizes.items() if dim not in own or dim in meeting)

    def dims(self, name: str) -> Sequence[str]:
        """Return the dimensions of an operand, in the order of its array's axes."""
        trace = self.plain.trace
        return trace.tensors.get(name) or [dim for dim in trace.dims if dim in self.of_op.operand(name).axes]

    @lazy
    def size(self) -> int:
        """Return the number of elements of an array that has all dimensions."""
        return math.prod(self.sizes.values())

    def elements(self, sizes: Mapping[str, int]) -> int:
        """Return the number of elements of the formula's largest array, for these extents."""
        return max(math.prod(sizes[dim] for dim in dims) for dims in self.plain.grids)

    @lazy
    def in_order(self) -> tuple[int, ...]:
        """Return a sort key: neighbours in this order need the least filling up."""
        return (self.length,) if self.plain.separate else tuple(self.sizes.values())

    @lazy
    def sizes(self) -> Mapping[str, int]:
        """Return the extents of all dimensions, in the formula's order."""
        extents = Inputs(self.plain.trace, self.tensors, self.parameters).extents
        return {dim: extents[dim] for dim in self.plain.trace.dims}

    def enclose(self, contract: Contract, structured: bool) -> Mapping[str, Enclosure]:
        """Return the fast tier's enclosures (conformance sets) of all outputs, by name."""
        return self._enclosed(contract, structured, Union.enclosure, self.problem.outputs)

    def first(self, contract: Contract, structured: bool, output: str) -> Enclosure:
        """Return the fast tier's enclosure of an output by the first of the algorithms that the contract allows."""
        return self._enclosed(contract, structured, Union.first, [output])[output]

    def once(self, contract: Contract, structured: bool, own: Mapping[str, Enclosure]) -> Mapping[str, Enclosure]:
        """Return the enclosures `own` of all outputs, with exact values, rounded once, if kernels round on the way."""
        rounding = [name for name in own if (contract, name) in self._rounding]
        found = self._enclosed(contract, structured, Union.once, rounding) if rounding else {}
        return {name: joined([found[name], each]) if name in found else each for name, each in own.items()}

    def conformance(
        self,
        contract: Contract,
        structured: bool,
        tensors: Mapping[str, NDArray[Any]],
        exact: Exact | None = None,
        joined: Joined = ALONE,
    ) -> Union:
        """Return the allowed outputs under a settled contract, for canonical tensors, perhaps of joined problems."""
        outputs, outer = joined.outputs or self.problem.outputs, (BESIDE,) if joined.beside else ()
        dims = {name: (*outer, *self.of_op.operand(name).axes) for name in outputs}
        parameters: Mapping[str, float | F64] = {**self.parameters, **joined.parameters}
        ways = (Inputs(each.trace, tensors, parameters, joined.lengths) for each in self.formulas(contract, joined))
        absent = [each.name for each in self.of_op.inputs if each.name not in self.problem.inputs]
        complete = not any(is_addend(self.of_op, name) for name in absent)
        members = [
            Conformance(inputs, contract, outputs, structured, dims, complete, joined.parts, exact) for inputs in ways
        ]

        def unrounded() -> Sequence[Conformance]:
            once, own = contract.unrounded(self._given), replace(members[0].inputs, trace=self.plain.trace)
            if once is None:
                return ()
            found = Conformance(own, once, outputs, structured, dims, complete, exact=exact)
            if contract.is_wide or found.settles:
                sharp = replace(found, sharp=True)
                return (sharp,) if contract.is_wide else (sharp, found)
            return (found,)

        return Union(members, unrounded)

    def whole(self, contract: Contract, structured: bool) -> Union:
        """Return the allowed outputs of all rows at once, under a settled contract. The last result is kept until
        another contract, or another `structured`, is asked for."""
        if (contract, structured) not in self._whole:
            self._whole.clear()
            self._whole[contract, structured] = self.conformance(contract, structured, self.tensors, self._exact)
        return self._whole[contract, structured]

    @lazy
    def _whole(self) -> dict[tuple[Contract, bool], Union]:
        return {}

    @lazy
    def _exact(self) -> Exact:
        return Exact(Inputs(self.plain.trace, self.tensors, self.parameters))

    def _enclosed(
        self, contract: Contract, structured: bool, way: Callable[[Union, str], Enclosure], outputs: Iterable[str]
    ) -> Mapping[str, Enclosure]:
        """Return the enclosures of some outputs, calculated for a few rows at a time if rows are separate."""
        settled, at_once = self.settled(contract), max(1, _CHUNK // max(1, self.length))
        starts = range(0, self.rows, at_once) if self.plain.separate and self.rows > at_once else ()
        chunks: Sequence[slice | None] = [slice(start, start + at_once) for start in starts] or [None]
        parts = list[Mapping[str, Enclosure]]()
        for rows in chunks:
            if rows is None and self.size <= _KEPT:
                found = self.whole(settled, structured)
            else:
                found = self.conformance(settled, structured, self.tensors if rows is None else self.rows_of(rows))
            parts.append({name: way(found, name) for name in outputs})
            self._rounding.update((contract, name) for name in outputs if found.rounds(name))
        return {name: concatenated([part[name] for part in parts]) for name in outputs}

    @lazy
    def _rounding(self) -> set[tuple[Contract, str]]:
        """Return a set of pairs of a contract and an output, at first empty: those in which the output is known to be
        made from values that all kernels round to the same number."""
        return set()

    def rows_of(self, rows: slice) -> Mapping[str, NDArray[Any]]:
        """Return these rows of all tensors."""
        return {name: array[rows] for name, array in self.tensors.items()}

    def _canonical(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        """Return an input in canonical shape. Raises ProblemError if its shape does not fit."""
        self.arrangement.checked(name, array)
        if name in self._stacked:  # row r takes row r mod their number
            return array[np.arange(self.rows) % max(len(array), 1)]
        found = self.arrangement.collapsed(name, array)
        if self.plain.separate and name in self.of_op.columns:
            found = np.broadcast_to(found, (self.rows, self.length))
        return np.ascontiguousarray(found).reshape(found.shape)  # ascontiguousarray adds an axis to scalars

    def _given_parameters(self) -> Mapping[str, float]:
        """Return each parameter's value, or else its neutral value. Raises ProblemError for one without either."""
        found = dict[str, float]()
        for each in self.of_op.parameters:
            value = self.problem.params.get(each.name, each.neutral)
            if value is None:
                raise ProblemError(f"params.{each.name}: {self.problem.op} needs it")
            found[each.name] = float(value)
        return found
