"""The outputs that correct kernels may return for given inputs, for autotuners and for a user's own tests.

`bound` returns the exact value of each output element and the interval that the contract allows; `assert_right` checks
an output against that interval. Both read the reference and judge as `fuzz.check` does, but search for no cases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.dtypes import numbers
from fuzz.core.base.errors import error_line
from fuzz.core.base.text import counted
from fuzz.core.transport.python.arrays import NumpyArrays, TorchArrays, UnreadableArrayError
from fuzz.core.transport.python.halves import in_halves
from fuzz.references.derive import ANY, FINITE, Derived, derive
from fuzz.references.dims import UnreadableError
from fuzz.references.gpu import multiply_on_gpu
from fuzz.references.layers import weights_of, with_weights
from fuzz.references.parameters import has_signature, parameters_of
from fuzz.report.words import element
from fuzz.tasks.check.function import held
from fuzz.tasks.check.reference import contract_of
from fuzz.tasks.check.results import CheckError, CheckFailed, reason_of, told
from oracles.doubledouble import DoubleDouble, head
from oracles.dtypes import DTYPES, INTEGERS, DtypeError
from oracles.enclosure import Enclosure
from oracles.formula.contract import Contract
from oracles.problem import Problem, ProblemError
from oracles.summation import NumericsError
from oracles.truth import GaveUp, OutputCheck, Result, Truth

__tracebackhide__ = told
Inputs = Any
"""The arguments of a reference: a sequence in order, a mapping by name, or a single array."""


@dataclass(frozen=True)
class OutputBound:
    """The values that correct kernels may return. Every field is an array of the output's shape, or, if the inputs are
    tensors, a tensor on their device."""

    exact: Any
    """The exact value of each element, rounded to float64."""
    tail: Any
    """The exact value minus `exact`, for elements whose exact value is known to about 100 bits, as in float64 outputs.
    It is 0 for elements that float64 suffices to judge: their `exact` has the rounding errors of float64."""
    low: Any
    high: Any
    """The least (`low`) and the largest value that a correct kernel may return, in the output's dtype, or NaN."""
    nan: Any
    """True for elements that may be NaN as well."""
    open: Any
    """True for elements that may have any value, by the contract."""

    def allows(self, output: Any) -> Any:
        """Return for each element of an output whether it is within the bound. Raises CheckError for another shape."""
        if (shape := tuple(np.shape(output))) != tuple(self.low.shape):
            raise CheckError(f"the output's shape is {shape}, and must be {tuple(self.low.shape)}")
        inside = (self.low <= output) & (output <= self.high)
        return inside | self.open | ((output != output) & self.nan)


def bound(
    reference: Callable[..., Any], inputs: Inputs, contract: Contract | Mapping[str, Any] | None = None, *,
    output: str = "", dtype: str | None = None, random: bool = False, values: str = FINITE,
) -> OutputBound:  # fmt: skip
    """Return the values that correct kernels may return for these inputs. If the reference has several outputs,
    `output` names one of them, such as "y0".

    The reference is a function of torch, NumPy or JAX; `inputs` are its arguments, in order or by name. `dtype`, such
    as "bf16", is the dtype of the outputs; by default the one that the reference fixes, else that of the first input of
    floats. `random` says that the values of the inputs were drawn independently of each other: rounding errors then
    grow with the square root of the number of terms; otherwise the worst case is allowed. With `values="any"`, NaN,
    infinities and overflow are judged as well. Raises CheckError if the reference cannot be read, or if the output is
    one of indices.
    """
    return ReadTask.of(reference, inputs, contract, values).bound(output, dtype, random=random)


def assert_right(
    output: Any, reference: Callable[..., Any], inputs: Inputs, contract: Contract | Mapping[str, Any] | None = None, *,
    random: bool = False, values: str = FINITE,
) -> None:  # fmt: skip
    """Raise CheckFailed, an AssertionError, unless the output is right for these inputs. An element that the oracle
    cannot decide counts as wrong. `output` is an array or, for a reference of several outputs, a tuple of arrays or a
    mapping from their names. Each output is judged in its own dtype. For the other arguments and errors see `bound`."""
    task = ReadTask.of(reference, inputs, contract, values)
    if lines := [each.said for each in task.judged(output, random=random) if each.result != "pass"]:
        raise CheckFailed("\n".join([*lines, task.derived.said]))


@dataclass(frozen=True)
class JudgedOutput:
    """The result of judging one output."""

    result: Result
    said: str
    """The line about a wrong or undecided output; "" for one that passes."""


@dataclass(frozen=True)
class ReadTask:
    """A reference that was read for given inputs, and the contract that its kernels are judged by."""

    derived: Derived
    contract: Contract
    arrays: Mapping[str, NDArray[Any]]
    """The inputs, by the op's names for them."""
    dtype: str
    """The dtype of the first input of floats; "f32" if there is none."""
    like: Any
    """An input that is a tensor, on whose device results are returned; None if all inputs are arrays of NumPy."""

    @classmethod
    def of(
        cls, reference: Callable[..., Any], inputs: Inputs, contract: Contract | Mapping[str, Any] | None = None,
        values: str = FINITE,
    ) -> ReadTask:  # fmt: skip
        """Read a reference for these inputs. Raises CheckError."""
        if values not in (FINITE, ANY):
            raise CheckError(f"values={values!r}: it must be {FINITE!r} or {ANY!r}")
        if not isinstance(inputs, (Mapping, list, tuple)):
            inputs = (inputs,)
        if not any(hasattr(each, "shape") for each in (inputs.values() if isinstance(inputs, Mapping) else inputs)):
            raise CheckError("inputs must hold an array or a tensor: make arrays of lists, such as np.asarray(x)")
        if weights_of(reference):
            named = inputs if isinstance(inputs, Mapping) else dict(zip(parameters_of(reference), inputs, strict=False))
            reference, inputs = with_weights(reference, named)
        try:
            rows, examples = _with_dimension(reference, inputs)
            derived = derive(rows, example_inputs=examples, values=values)
        except ImportError as error:
            raise CheckError(f"reference: it is read with torch: {error_line(error)}") from error
        except UnreadableError as error:
            raise CheckError(str(error)) from reason_of(error)
        known = parameters_of(reference) if has_signature(reference) else derived.called
        if len(inputs) > len(known):
            raise CheckError(f"inputs are {len(inputs)}, and the reference takes {len(known)}")
        if not isinstance(inputs, Mapping):
            inputs = dict(zip(known if derived.parted is None else derived.parted.names, inputs, strict=False))
        return cls.of_read(derived, inputs, contract, strict=values == ANY)

    @classmethod
    def of_read(
        cls, derived: Derived, named: Mapping[str, Any], contract: Contract | Mapping[str, Any] | None = None, *,
        strict: bool = False,
    ) -> ReadTask:  # fmt: skip
        """Return the task of a reference that was read, for inputs by the reference's names. Raises CheckError."""
        named = named if derived.parted is None else derived.parted.examples(named)
        of = {own: named[theirs or own] for own, theirs in derived.called.items() if (theirs or own) in named}
        found = {name: array_of(value, name) for name, value in of.items()}
        if not any(values.ndim for values, _ in found.values()):  # see `_with_dimension`
            found = {name: (values.reshape(1), dtype) for name, (values, dtype) in found.items()}
        floats = [dtype for _, dtype in found.values() if dtype not in INTEGERS]
        dtype = next(iter(floats), "f32")
        tensors = [value for value in of.values() if hasattr(value, "data_ptr")]
        if tensors:
            multiply_on_gpu()
        usual = contract_of(derived, "torch" if tensors else "numpy", [dtype], strict=strict)
        return cls(derived, held(contract, usual), {name: each for name, (each, _) in found.items()}, dtype,
                   next(iter(tensors), None))  # fmt: skip

    def bound(self, output: str = "", dtype: str | None = None, *, random: bool = False) -> OutputBound:
        """Return the values that correct kernels may return, see `fuzz.bound`. Raises CheckError."""
        names = [each.name for each in self.derived.op.outputs]
        name = output or names[0]
        if name not in names or (len(names) > 1 and not output):
            raise CheckError(f"say which output: output={' or '.join(map(repr, names))}")
        self._confirmed()
        truth = self.truth({each.name: dtype or each.dtype for each in self.derived.op.outputs}, random=random)
        enclosure = truth.enclosures(self.contract, not random, once=True)[name]
        if enclosure.places:
            raise CheckError(f"{name} is of places, several of which may be right: use fuzz.assert_right")
        return self.shown(_bound(truth, name, enclosure, self.contract, not random))

    def judged(self, output: Any, *, random: bool = False) -> Sequence[JudgedOutput]:
        """Return the judgement of each output, see `fuzz.assert_right`. Raises CheckError."""
        names = [each.name for each in self.derived.op.outputs]
        output = output if self.derived.parted is None else in_halves(output)
        several = output if isinstance(output, (Mapping, tuple, list)) else [output]
        given = several if isinstance(several, Mapping) else dict(zip(names, several, strict=False))
        if {*given} != {*names} or len(several) != len(names):
            wanted, got = counted(len(names), "output"), counted(len(several), "array")
            raise CheckError(f"the reference has {wanted}, {', '.join(names)}, and the output is {got}")
        arrays = {name: array_of(given[name], name) for name in names}
        truth = self.truth({name: dtype for name, (_, dtype) in arrays.items()}, random=random)
        for name, (array, _) in arrays.items():
            if array.shape != (shape := truth.op.shape(name)):
                self._confirmed()
                return [JudgedOutput("numeric", f"{name}: shape {array.shape}, must be {shape}")]
        try:
            checks = truth.check(self.contract, {name: values for name, (values, _) in arrays.items()})
        except (ProblemError, NumericsError) as error:
            raise CheckError(str(error)) from None
        if any(each.result in ("numeric", "nonfinite") for each in checks):
            self._confirmed()
        return [JudgedOutput(each.result, _said(truth, self.contract, each, arrays[each.output][0])) for each in checks]

    def _confirmed(self) -> None:
        """Raise CheckError if the reference does something else for inputs of these extents than where it was read."""
        if said := self.derived.misread(self.arrays):
            raise CheckError(f"the reference does something else at these extents than where it was read: {said}")

    def truth(self, dtypes: Mapping[str, str], *, random: bool) -> Truth:
        """Return the oracle for outputs of these dtypes; '' stands for the dtype of the inputs. Raises CheckError."""
        outputs = {name: dtype or self.dtype for name, dtype in dtypes.items()}
        op = self.derived.op
        try:
            truth = Truth(Problem(op.name, {}, self.arrays, outputs, structured=not random, known=op))
            truth.op.settled(self.contract)
        except (ProblemError, NumericsError, DtypeError) as error:
            raise CheckError(str(error)) from None
        return truth

    def shown(self, found: OutputBound) -> OutputBound:
        """Return the bound as tensors on the inputs' device, or unchanged if the inputs are arrays of NumPy."""
        if self.like is None:
            return found
        import torch

        return OutputBound(**{
            each.name: torch.from_numpy(getattr(found, each.name).copy()).to(self.like.device)
            for each in fields(found)
        })  # fmt: skip


def array_of(value: Any, name: str) -> tuple[NDArray[Any], str]:
    """Return the values of an array or tensor, and the name of its dtype. Raises CheckError."""
    arrays = TorchArrays() if hasattr(value, "data_ptr") else NumpyArrays()
    value = value if arrays.owns(value) else np.asarray(value)
    dtype = next((each for each, own in arrays.dtypes.items() if own == value.dtype), None)
    if dtype is None:
        raise CheckError(f"{name}: its dtype is {value.dtype}; known: {', '.join(arrays.dtypes)}")
    try:
        return numbers(arrays.bits(value), dtype, tuple(value.shape)), dtype
    except UnreadableArrayError as error:
        raise CheckError(f"{name}: {error}") from None


def _bound(truth: Truth, name: str, enclosure: Enclosure, contract: Contract, structured: bool) -> OutputBound:
    """Return the bound of an output, from the fast tier of the oracle, and from the precise tier for the elements that
    the fast tier cannot decide."""
    low, high = enclosure.hull()
    nan, anything = enclosure.may_be_nan(), enclosure.anything(DTYPES[truth.problem.outputs[name]])
    centre = enclosure.centre
    exact = np.array(head(centre))
    tail = np.array(centre.low) if isinstance(centre, DoubleDouble) else np.zeros_like(exact)
    unsure = np.zeros(low.shape, bool) if enclosure.unsure is None else enclosure.unsure & ~anything
    for at in map(tuple, np.argwhere(unsure)[:_MOST_PRECISE]):
        bounds = truth.bounds(contract, name, at, structured, once=True)
        if bounds is not None:
            exact[at] = float(bounds.centre)
            tail[at] = float(bounds.centre - exact[at]) if np.isfinite(exact[at]) else 0.0
            (low[at], high[at]), nan[at] = bounds.hull, bounds.may_be_nan
    places = truth.places(name)

    def returned(values: NDArray[Any]) -> NDArray[Any]:
        found = np.empty(truth.op.shape(name), values.dtype)
        found.reshape(-1)[places.reshape(-1)] = values.reshape(-1)
        return found

    return OutputBound(*map(returned, (exact, tail, low, high, nan, anything)))


def _with_dimension(reference: Callable[..., Any], inputs: Any) -> tuple[Callable[..., Any], Any]:
    """Return a reference and inputs with one dimension each if no input has any, since an op has dimensions."""
    given = inputs if isinstance(inputs, Mapping) else dict(enumerate(inputs))
    if any(len(getattr(each, "shape", ())) for each in given.values()):
        return reference, inputs

    @wraps(reference)
    def of_rows(*args: Any, **kwargs: Any) -> Any:
        numbers = {name: _reshaped(each, ()) for name, each in kwargs.items()}
        return reference(*(_reshaped(each, ()) for each in args), **numbers)

    rows = {name: _reshaped(each, (1,)) for name, each in given.items()}
    return of_rows, rows if isinstance(inputs, Mapping) else [*rows.values()]


def _reshaped(value: Any, shape: tuple[int, ...]) -> Any:
    return value.reshape(shape) if hasattr(value, "reshape") else value


def _said(truth: Truth, contract: Contract, check: OutputCheck, got: NDArray[Any]) -> str:
    """Return the line about an output: how many elements could not be decided, or its worst element, the right value,
    and the number of wrong elements; "" if it passes."""
    if check.result == "pass":
        return ""
    if check.result == "gave_up":
        return f"{check.output}: {counted(check.late or 1, 'element')} could not be decided"
    index = check.worst_index or ()
    value = float(got[index])
    try:
        found = truth.explain(contract, check.output, index, value)
    except GaveUp:
        found = truth.explain_roughly(contract, check.output, index, value)
    digits = 17 if got.dtype == np.float64 else 9
    shown, right, low, high = (
        f"{each.value:.{digits}g}" for each in (found.got, found.expected, found.low, found.high)
    )
    must = f"{element(check.output, index)} = {shown}, must be {right}"
    if found.low.value != found.high.value:
        must += f" (or {low} to {high})"
    must += "".join(f", {each}" for each in found.remarks)
    return f"{must}; {check.failing:,} of {counted(got.size, 'element')} wrong"


_MOST_PRECISE = 1 << 12
"""The most elements that the precise tier is asked about: some 10 s of work. Any further ones keep a wider bound."""
