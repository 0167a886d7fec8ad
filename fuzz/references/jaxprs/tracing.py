"""A reference in JAX as a program: the equations of its jaxpr in order, with all called functions inlined."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import numpy as np

from fuzz.references.dims import MisnamedError, NotTakenError, UnreadableError
from fuzz.references.tracing import RETURNS_NONE, SourceLine

_CALLS = ("jaxpr", "call_jaxpr", "fun_jaxpr")
"""The parameters of an equation that hold the jaxpr of a called function."""
_OPAQUE = "scan", "while", "cond"
"""Primitives with bodies, which are not inlined but have rules of their own."""
WHOLE = "floor_divide", "remainder"
"""Functions of JAX that are kept as one operation, since inside they calculate with integers."""
CAST = "convert_element_type"


Shape = tuple[tuple[int, ...], str]
"""The shape and the dtype of an array."""


@dataclass(frozen=True)
class TracedNumber:
    """A number among the operands of an equation."""

    value: float | int | bool
    dtype: str


@dataclass(frozen=True)
class Equation:
    """One application of a primitive."""

    name: str
    given: tuple[int | TracedNumber, ...]
    """The operands: results of equations or inputs by their index in the program, or constants."""
    made: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    """The shapes of the results; `dtypes` holds their dtypes."""
    dtypes: tuple[str, ...]
    params: Mapping[str, Any]
    lines: tuple[SourceLine, ...]
    primitive: Any
    bodies: tuple[TracedProgram, ...] = ()

    @property
    def constants_and_carried(self) -> tuple[int, int]:
        """The number of a loop's operands that are constants, which come first, and the number of values that each
        iteration gets from the previous one. Raises UnreadableError if JAX does not state them, as 0.11."""
        try:
            return self.params["num_consts"], self.params["num_carry"]
        except KeyError as error:
            raise UnreadableError("has a loop, which can be read of jax<0.11: install that") from error


@dataclass(frozen=True)
class TracedProgram:
    """A function of arrays as JAX traced it: equations from inputs to outputs. Values are identified by an index."""

    inputs: tuple[int, ...]
    equations: tuple[Equation, ...]
    outputs: tuple[int | TracedNumber, ...]
    constants: Mapping[int, Any] = field(default_factory=dict)
    """The arrays that the function captures, by index."""
    names: tuple[str, ...] = ()
    """The keys of the outputs, if the function returns a mapping."""
    shapes: Mapping[int, Shape] = field(default_factory=dict)
    """The shape and the dtype of inputs and constants, by index."""


def program(call: Callable[..., Any], specs: Mapping[str, Shape]) -> TracedProgram:
    """Return the program of a function for arrays of these shapes and dtypes. Constants have the values in its source,
    if tracing with float64 shows these, not values rounded to f32. Raises UnreadableError."""
    import jax

    own = _program(call, specs)
    try:
        with jax.enable_x64(True):
            exact = _program(call, {name: (shape, _widest(dtype)) for name, (shape, dtype) in specs.items()})
    except UnreadableError:  # such as a loop that starts with zeros in f32
        exact = own
    return _with_numbers(own, exact)


def opened(closed: Any) -> TracedProgram:
    """Return the program of a closed jaxpr."""
    return _Flattening(count(1)).program(closed)


def _widest(dtype: str) -> str:
    return "float64" if "float" in dtype else dtype


def _program(call: Callable[..., Any], specs: Mapping[str, Shape]) -> TracedProgram:
    closed, keys = traced(call, specs)
    return replace(_Flattening(count(1)).program(closed), names=tuple(keys))


def traced(call: Callable[..., Any], specs: Mapping[str, Shape]) -> tuple[Any, Sequence[str]]:
    """Return a function's jaxpr for such arrays, and the keys of its outputs. Raises UnreadableError."""
    import jax

    keys: list[str] = []

    def flat(*arrays: Any) -> tuple[Any, ...]:
        returned = call(**dict(zip(specs, arrays, strict=True)))
        if isinstance(returned, Mapping):
            keys[:] = map(str, returned)
            returned = tuple(returned.values())
        if returned is None:
            raise MisnamedError(RETURNS_NONE)
        found = tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)
        if wrong := [each for each in found if not isinstance(each, (jax.Array, np.ndarray, np.generic, float, int))]:
            raise UnreadableError(
                f"it returns {type(wrong[0]).__name__}: a reference calculates with jax.numpy, and returns arrays"
            )
        return found

    try:
        return jax.make_jaxpr(flat)(*(jax.ShapeDtypeStruct(*each) for each in specs.values())), keys
    except UnreadableError:
        raise
    except Exception as error:  # the function's own, or JAX's about a branch on values
        refused = UnreadableError if isinstance(error, jax.errors.JAXTypeError) else NotTakenError
        raise refused(_why(error)) from error


def _why(error: Exception) -> str:
    """Return an error as one line of text, with the line of the reference that raised it."""
    import jax

    said = " ".join(str(error).split()) or type(error).__name__
    trace, line = error.__traceback__, None
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        line = line if is_library(file) else SourceLine(file, trace.tb_lineno)
        trace = trace.tb_next
    where = f" ({line})" if line is not None else ""
    if isinstance(error, jax.errors.TracerArrayConversionError):
        return f"it gives an array of JAX to NumPy{where}: write jnp for np there"
    if isinstance(error, jax.errors.ConcretizationTypeError):
        return f"a value decides what it does, or becomes a number of Python{where}: a formula has neither"
    return f"{type(error).__name__}{where}: {said[:300]}"


def is_library(file: str) -> bool:
    """Whether a file belongs to JAX, NumPy or this folder, not to the user."""
    import jax
    import jaxlib

    files = (jax.__file__, jaxlib.__file__, np.__file__, __file__, os.__file__)
    own = tuple(os.path.dirname(each) + os.sep for each in files)  # noqa: PTH120
    return file.startswith((*own, "<frozen"))


class _Flattening:
    """The flattening of a jaxpr: values get an index, and calls become the equations of the called function."""

    def __init__(self, numbers: count[int]) -> None:
        self._numbers, self._constants, self._shapes = numbers, dict[int, Any](), dict[int, Shape]()

    def program(self, closed: Any, lines: tuple[SourceLine, ...] = ()) -> TracedProgram:
        """Return the program of a closed jaxpr; `lines` are the lines of its callers."""
        known, jaxpr = dict[Any, int | TracedNumber](), closed.jaxpr
        self._hold(known, jaxpr.constvars, closed.consts)
        inputs = tuple(self._shaped(known, var) for var in jaxpr.invars)
        equations = tuple(self._equations(jaxpr, known, lines))
        outputs = tuple(_known(known, each) for each in jaxpr.outvars)
        return TracedProgram(inputs, equations, outputs, self._constants, shapes=self._shapes)

    def _hold(self, known: dict[Any, int | TracedNumber], variables: Sequence[Any], values: Sequence[Any]) -> None:
        """Note the values of variables: numbers, or constants of the program."""
        for var, value in zip(variables, values, strict=True):
            if np.ndim(value) == 0 and hasattr(value, "dtype"):
                known[var] = _number(value, var.aval)
            else:
                self._constants[self._shaped(known, var)] = value

    def _shaped(self, known: dict[Any, int | TracedNumber], var: Any) -> int:
        number = self._new(known, var)
        self._shapes[number] = tuple(var.aval.shape), str(var.aval.dtype)
        return number

    def _new(self, known: dict[Any, int | TracedNumber], var: Any) -> int:
        number = known[var] = next(self._numbers)
        return number

    def _equations(
        self, jaxpr: Any, known: dict[Any, int | TracedNumber], outer: tuple[SourceLine, ...]
    ) -> Iterator[Equation]:
        for eqn in jaxpr.eqns:
            name, lines = eqn.primitive.name, (*_lines(eqn), *outer)
            called = next((eqn.params[each] for each in _CALLS if eqn.params.get(each) is not None), None)
            whole = eqn.params.get("name") in WHOLE and is_library(_file(called))
            if called is not None and name not in _OPAQUE and not whole and hasattr(_open(called), "eqns"):
                yield from self._called(eqn, called, known, lines)
                continue
            given = tuple(_known(known, each) for each in eqn.invars)
            made = tuple(self._new(known, var) for var in eqn.outvars)
            avals = [var.aval for var in eqn.outvars]
            bodies = (
                tuple(_Flattening(self._numbers).program(each, lines) for each in _bodies(eqn))
                if name in _OPAQUE or whole
                else ()
            )
            yield Equation(
                eqn.params["name"] if whole else name, given, made, tuple(tuple(each.shape) for each in avals),
                tuple(str(each.dtype) for each in avals), eqn.params, lines, eqn.primitive, bodies,
            )  # fmt: skip

    def _called(
        self, eqn: Any, called: Any, known: dict[Any, int | TracedNumber], lines: tuple[SourceLine, ...]
    ) -> Iterator[Equation]:
        inner, own = _open(called), dict[Any, int | TracedNumber]()
        self._hold(own, inner.constvars, getattr(called, "consts", ()))
        own |= {var: _known(known, each) for var, each in zip(inner.invars, eqn.invars, strict=True)}
        # JAX caches its own functions with the lines of their first call: use the lines of this call.
        yield from (
            replace(each, lines=lines if is_library(_file(called)) else each.lines)
            for each in self._equations(inner, own, lines)
        )
        known |= {var: _known(own, each) for var, each in zip(eqn.outvars, inner.outvars, strict=True)}


def _bodies(eqn: Any) -> Sequence[Any]:
    if eqn.primitive.name == "cond":
        return tuple(eqn.params["branches"])
    if eqn.primitive.name == "while":
        return eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
    return (next(eqn.params[each] for each in _CALLS if eqn.params.get(each) is not None),)


def _open(jaxpr: Any) -> Any:
    return getattr(jaxpr, "jaxpr", jaxpr)


def _file(jaxpr: Any) -> str:
    """Return the path of the file that defines a jaxpr's function; "" if it is unknown."""
    said = getattr(getattr(_open(jaxpr), "debug_info", None), "func_src_info", None) or ""
    return str(said).rpartition(" at ")[2].rpartition(":")[0]


def _known(known: Mapping[Any, int | TracedNumber], var: Any) -> int | TracedNumber:
    return _number(var.val, var.aval) if hasattr(var, "val") else known[var]


def _number(value: Any, aval: Any) -> TracedNumber:
    return TracedNumber(np.asarray(value).item(), str(aval.dtype))


def _lines(eqn: Any) -> Iterator[SourceLine]:
    trace = getattr(eqn.source_info, "traceback", None)
    for frame in trace.frames if trace is not None else ():
        if not is_library(frame.file_name):
            yield SourceLine(frame.file_name, frame.line_num)


def _with_numbers(own: TracedProgram, exact: TracedProgram) -> TracedProgram:
    """Return a program with constants as in its source, from `exact`, since `own` has them rounded to its dtype."""
    mine = [each for each in own.equations if each.name != CAST]
    theirs = [each for each in exact.equations if each.name != CAST]
    if [each.name for each in mine] != [each.name for each in theirs]:
        theirs = mine
    pairs = dict(zip((each.made for each in mine), theirs, strict=True))
    equations = list[Equation]()
    for each in own.equations:
        other = pairs.get(each.made, each)
        given = tuple(map(_written, each.given, other.given))
        bodies = tuple(map(_with_numbers, each.bodies, other.bodies))
        equations.append(replace(each, given=given, bodies=bodies))
    outputs = own.outputs
    if len(outputs) == len(exact.outputs):
        outputs = tuple(map(_written, outputs, exact.outputs))
    return replace(own, equations=tuple(equations), outputs=outputs)


def _written(mine: int | TracedNumber, theirs: int | TracedNumber) -> int | TracedNumber:
    if not isinstance(mine, TracedNumber) or not isinstance(mine.value, float) or math.isnan(mine.value):
        return mine
    kind = np.dtype(mine.dtype)  # those that NumPy lacks are known to it from JAX
    if isinstance(theirs, TracedNumber) and theirs.dtype == "float64" and isinstance(theirs.value, float):
        with np.errstate(all="ignore"):
            if float(np.asarray(theirs.value).astype(kind)) == mine.value:
                return replace(mine, value=theirs.value)
    return replace(mine, value=float(str(np.asarray(mine.value).astype(kind))))
