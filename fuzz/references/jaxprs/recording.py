"""The recording of a reference: its programs for two sets of extents are read in lockstep into the steps of a formula.
Numbers that follow from numbers and extents are calculated here. Places are known not to be negative, so that JAX's
handling of negative places is dropped."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fuzz.references.dims import Pair, UnreadableError
from fuzz.references.jaxprs.tracing import Equation, TracedNumber, TracedProgram, program
from fuzz.references.recording import Recording, Step, Two, Use, either
from fuzz.references.scope import ITERATIONS

LOOPS = "A loop over a dimension is read if it is jax.lax.scan or fori_loop"


def difference(one: Equation, other: Equation) -> str:
    """Return the error text about primitives that differ between the programs of two sets of extents."""
    where = f" ({one.lines[0]})" if one.lines else ""
    return f"with other extents it does something else: lax.{one.name} or lax.{other.name}{where}. {LOOPS}"


@dataclass
class Iteration:
    """One iteration of a loop, in both programs."""

    first: TracedProgram
    second: TracedProgram
    ends: Mapping[int, int | TracedNumber]
    """For each value that comes from the previous iteration, the result that replaces it for the next iteration."""
    done: set[int] = field(default_factory=set)
    """The results among `ends` that are recorded already."""

    def second_end(self, number: int) -> TracedNumber:
        """Return the end of a value, if it is a number, in the second program."""
        found = self.second.outputs[[*self.ends].index(number)]
        assert isinstance(found, TracedNumber)
        return found

    def before(self, number: int) -> set[int]:
        """Return the values of the previous iteration from which the end of the value `number` is calculated."""
        found = {self.ends[number]}
        for each in reversed(self.first.equations):
            if {*each.made} & found - self.done:
                found |= {*each.given}
        return {each for each in self.ends if each in found}

    def made_for(self, end: int | TracedNumber) -> Iterator[tuple[Equation, Equation]]:
        """Yield, as pairs from both programs, the equations from which an end is calculated."""
        wanted = {end}
        for each in reversed(self.first.equations):
            if {*each.made} & wanted - self.done:
                wanted |= {*each.given}
        yield from self._of(lambda each: bool({*each.made} & wanted - self.done))

    def rest(self) -> Iterator[tuple[Equation, Equation]]:
        """Yield all equations without a recorded end, once all values of the previous iteration are recorded."""
        yield from self._of(lambda each: not {*each.made} & self.done)

    def _of(self, wanted: Callable[[Equation], bool]) -> Iterator[tuple[Equation, Equation]]:
        for mine, theirs in zip(self.first.equations, self.second.equations, strict=True):
            if mine.name != theirs.name:
                raise UnreadableError(difference(mine, theirs))
            if wanted(mine):
                yield mine, theirs


Known = Use | Two | float | int | bool
_TWO = ("add", "sub", "mul", "div", "max", "min", "lt", "le", "gt", "ge", "eq", "ne", "pow")
_NUMBERS: Mapping[str, Callable[..., Any]] = {
    **{name: getattr(operator, {"div": "truediv"}.get(name, name)) for name in _TWO if name not in ("max", "min")},
    "max": max, "min": min, "neg": operator.neg, "sqrt": math.sqrt, "rsqrt": lambda a: 1.0 / math.sqrt(a), "abs": abs,
    "floor": math.floor, "ceil": math.ceil, "square": lambda a: a * a, "exp": math.exp, "log": math.log,
    "copy": lambda a: a, "stop_gradient": lambda a: a, "select_n": lambda which, *cases: cases[int(which)],
    "clamp": lambda low, a, high: min(max(low, a), high), "not": lambda a: not a, "is_finite": math.isfinite,
    "sign": lambda a: float((a > 0) - (a < 0)), "and": lambda a, b: a and b, "or": lambda a, b: a or b,
}  # fmt: skip
"""The functions of primitives that are calculated here if all operands are numbers."""
_SAME = ("reshape", "broadcast_in_dim", "squeeze", "transpose", "copy", "slice", "rev", "convert_element_type", "split")
"""Primitives that keep or move values, so that they make nonnegative places from nonnegative places."""
_NOT_NEGATIVE = ("iota", "argmax", "argmin")
_PER_CALL = ("sharding", "out_sharding", "precision", "debug_info", "linear", "unroll", "out_avals")
"""Parameters of primitives that do not affect values."""


def record(
    call: Callable[..., Any], names: Sequence[str], specs: Sequence[Mapping[str, tuple[tuple[int, ...], str]]]
) -> Recording:
    """Return the steps of a reference for arrays of two sets of extents. Raises UnreadableError."""
    first, second = (program(call, {name: each[name] for name in names}) for each in specs)
    recorder = _Recorder()
    for one, other in zip(first.inputs, second.inputs, strict=True):
        recorder.given(one, *(made.shapes[at] for made, at in ((first, one), (second, other))))
    found = [*recorder.read(first, second)]
    outputs = [recorder.as_step(each, "float32") for each in found]
    return Recording(recorder.steps, outputs, first.names)


@dataclass
class _Recorder:
    def __post_init__(self) -> None:
        self.steps = list[Step]()
        self._known = dict[int, Known]()
        self._places = set[int]()
        """The numbers of values that are known to be nonnegative integers."""
        self._always = dict[int, bool]()
        """The constant values of conditions, by number of the condition."""

    def given(self, number: int, first: tuple[tuple[int, ...], str], second: tuple[tuple[int, ...], str]) -> None:
        """Record an input."""
        shape = tuple(zip(first[0], second[0], strict=True))
        self._known[number] = self._step("input", {}, [shape], first[1], ())
        if "int" in first[1]:
            self._places.add(number)

    def read(self, first: TracedProgram, second: TracedProgram) -> Iterator[Known]:
        """Record all equations, and yield the outputs."""
        for number in first.constants:
            shape, dtype = first.shapes[number]
            self._known[number] = self._step("constant", {"value": None}, [tuple(zip(shape, shape))], dtype, ())  # noqa: B905
        pairs = zip(first.equations, second.equations, strict=False)
        for one, other in pairs:
            if (one.name, len(one.given), len(one.shapes)) != (other.name, len(other.given), len(other.shapes)):
                raise UnreadableError(difference(one, other))
            self._equation(one, other)
        if len(first.equations) != len(second.equations):
            counts = f"{len(first.equations)} primitives or {len(second.equations)}"
            raise UnreadableError(f"with other extents it does something else: {counts}. {LOOPS}")
        for mine, theirs in zip(first.outputs, second.outputs, strict=True):
            yield self._operand(mine, theirs)

    def _operand(self, mine: int | TracedNumber, theirs: int | TracedNumber) -> Known:
        if isinstance(mine, int):
            return self._known[mine]
        assert isinstance(theirs, TracedNumber)
        return either(mine.value, theirs.value)

    def _step(
        self, op: str, given: Mapping[str, Any], shapes: Sequence[tuple[Pair, ...]], dtype: str, at: Sequence[Any]
    ) -> Use:
        self.steps.append(Step(op, "", given, shapes, f"torch.{dtype}", at))
        return Use(len(self.steps) - 1)

    def as_step(self, known: Known, dtype: str, at: Sequence[Any] = ()) -> Use:
        """Return the step that makes an operand. A number becomes a constant step."""
        if isinstance(known, Use):
            return known
        return self._step("constant", {"value": known}, [()], dtype, at)

    def _equation(self, one: Equation, other: Equation) -> None:
        given = [self._operand(a, b) for a, b in zip(one.given, other.given, strict=True)]
        if one.name == "scan":
            self._scan(one, other, given)
            return
        if self._follows(one, given):
            return
        shapes = [tuple(zip(*pair, strict=True)) for pair in zip(one.shapes, other.shapes, strict=True)]
        params = {name: _merged(each, other.params[name]) for name, each in one.params.items() if name not in _PER_CALL}
        plain = {name: each for name, each in params.items() if "jaxpr" not in name and not callable(each)}
        plain = {} if one.bodies else plain
        dtype = one.dtypes[0] if one.dtypes else ""
        use = self._step(f"lax.{one.name}", {"args": given, **plain}, shapes, dtype, one.lines)
        for item, number in enumerate(one.made):
            self._known[number] = use if len(one.made) == 1 else Use(use.step, item)

    def _follows(self, one: Equation, given: Sequence[Known]) -> bool:
        """Return whether the result of an equation is known, as a number or as a recorded value, and note it."""
        made, numbers = one.made[0] if one.made else 0, {each for each in one.given if isinstance(each, int)}
        if one.name in _NOT_NEGATIVE or (one.name in _SAME and numbers <= self._places) or self._all_places(one, given):
            self._places |= {*one.made}
        answer = self._compared(one, given)
        if answer is not None:
            self._always[made] = answer
        if one.name == "select_n" and isinstance(one.given[0], int) and one.given[0] in self._always:
            chosen = 1 + int(self._always[one.given[0]])
            self._known[made] = given[chosen]
            if one.given[chosen] in self._places:
                self._places.add(made)
            return isinstance(given[chosen], Use) or one.shapes == ((),)
        if one.shapes != ((),) or any(isinstance(each, Use) for each in given) or not given:
            return False
        if one.name == "convert_element_type":
            kind = float if "float" in one.dtypes[0] else bool if one.dtypes[0] == "bool" else int
            self._known[made] = _mapped(kind, given[:1])
        elif (function := _NUMBERS.get(one.name)) is not None:
            self._known[made] = _mapped(function, given)
        elif one.name == "integer_pow":
            self._known[made] = _mapped(lambda a: float(a) ** one.params["y"], given)
        else:
            return False
        return True

    def _all_places(self, one: Equation, given: Sequence[Known]) -> bool:
        """Whether a result is a nonnegative integer, as a sum or product of places and nonnegative numbers."""
        if one.name not in ("add", "mul", "max", "min") or "int" not in one.dtypes[0]:
            return False
        positive = (not isinstance(each, Use) and _first(each) >= 0 for each in given)
        return all(each in self._places or is_positive for each, is_positive in zip(one.given, positive, strict=True))

    def _compared(self, one: Equation, given: Sequence[Known]) -> bool | None:
        """Return the value of a condition if it is constant: that a place is negative, or x != x (without NaN)."""
        if one.name in (*_SAME, "reduce_or", "reduce_and"):
            return self._always.get(one.given[0]) if one.given and isinstance(one.given[0], int) else None
        if one.name == "ne" and one.given[0] == one.given[1]:
            return False
        if one.name not in ("lt", "gt"):
            return None
        places, number = (0, 1) if one.name == "lt" else (1, 0)
        zero = not isinstance(given[number], (Use, Two)) and given[number] == 0
        return False if zero and one.given[places] in self._places else None

    def _scan(self, one: Equation, other: Equation, given: Sequence[Known]) -> None:
        """Record a loop as one iteration, with markers for elements of tables and values of the previous iteration."""
        consts, carried = one.constants_and_carried
        reverse, at, [first], [second] = one.params["reverse"], one.lines, one.bodies, other.bodies
        iterations = self._step(
            ITERATIONS, {"length": (one.params["length"], other.params["length"])}, [()], "int32", at
        )
        for number, known in zip(first.inputs, given[:consts], strict=False):
            self._known[number] = known
        every = slice(consts + carried, None)
        for number, known, operand in zip(first.inputs[every], given[every], one.given[every], strict=True):
            self._each(first, second, number, known, operand, at, reverse=reverse)
        iteration = Iteration(
            first, second, dict(zip(first.inputs[consts : consts + carried], first.outputs, strict=False))
        )
        waiting = dict(zip(iteration.ends, given[consts : consts + carried], strict=True))
        for number in [*waiting]:
            if self._counts(iteration, number, waiting[number], iterations, at) and not reverse:
                del waiting[number]
        while waiting:
            ready = [number for number in waiting if not iteration.before(number) & {*waiting} - {number}]
            if not ready:
                raise UnreadableError("what a loop's iterations take of each other goes round: that has no formula")
            self._recurrence(iteration, ready[0], waiting.pop(ready[0]), iterations, at)
        for mine, theirs in iteration.rest():
            self._equation(mine, theirs)
        shapes = [tuple(zip(*pair, strict=True)) for pair in zip(one.shapes, other.shapes, strict=True)]
        for item, (number, shape, dtype) in enumerate(zip(one.made, shapes, one.dtypes, strict=True)):
            value = self._operand(first.outputs[item], second.outputs[item])
            if item < carried:
                made = self._step("last", {"self": value}, [shape], dtype, at) if isinstance(value, Use) else value
            else:
                made = self._step("stacked", {"self": self.as_step(value, dtype, at), "dim": 0}, [shape], dtype, at)
                made = self._reversed(made, shape, dtype, at) if reverse else made
            self._known[number] = made

    def _reversed(self, known: Use, shape: tuple[Pair, ...], dtype: str, at: Any) -> Use:
        return self._step("lax.rev", {"args": [known], "dimensions": (0,)}, [shape], dtype, at)

    def _each(
        self,
        first: TracedProgram,
        second: TracedProgram,
        number: int,
        known: Known,
        mine: int | TracedNumber,
        at: Any,
        *,
        reverse: bool,
    ) -> None:
        """Record that an iteration reads its own element of a table."""
        (shape, dtype), other = first.shapes[number], second.shapes[number][0]
        if isinstance(known, Use):
            whole = self.steps[known.step].shapes[known.item or 0]
            known = self._reversed(known, whole, dtype, at) if reverse else known
            known = self._step("each", {"self": known, "dim": 0}, [tuple(zip(shape, other, strict=True))], dtype, at)
        self._known[number] = known
        if mine in self._places:
            self._places.add(number)

    def _counts(self, iteration: Iteration, number: int, start: Known, iterations: Use, at: Any) -> bool:
        """Return whether a value of the previous iteration only counts iterations; if so, record it as their number."""
        shape, dtype = iteration.first.shapes[number]
        made = [
            each for each in iteration.first.equations if each.made == (iteration.ends[number],) and each.name == "add"
        ]
        by_one = [each for each in made for more in each.given if isinstance(more, TracedNumber) and more.value == 1]
        if shape or "int" not in dtype or isinstance(start, Use) or not any(number in each.given for each in by_one):
            return False
        self._known[number] = self._step("lax.add", {"args": [iterations, start]}, [()], dtype, at)
        if _first(start) >= 0:
            self._places.add(number)
        return True

    def _recurrence(self, iteration: Iteration, number: int, start: Known, iterations: Use, at: Any) -> None:
        """Record a state of a loop as a recurrence: its value in each iteration, from the value in the previous one."""
        (shape, dtype), other, end = (
            iteration.first.shapes[number],
            iteration.second.shapes[number][0],
            iteration.ends[number],
        )
        pair = tuple(zip(shape, other, strict=True))
        if end == number:  # it never changes
            self._known[number] = start
            return
        begin = self.as_step(start, dtype, at)
        carried = self._known[number] = self._step("carried", {"start": begin}, [pair], dtype, at)
        for mine, theirs in iteration.made_for(end):
            self._equation(mine, theirs)
        value = self._operand(end, end) if isinstance(end, int) else self._operand(end, iteration.second_end(number))
        given = {"carried": carried, "value": self.as_step(value, dtype, at)}
        made = self._step("recurrence", given, [pair], dtype, at)
        if isinstance(end, int):
            self._known[end] = made
            iteration.done.add(end)
        self._known[number] = self._step("lax.before", {"args": [made, begin, iterations]}, [pair], dtype, at)


def _first(known: Known) -> float:
    return known.first if isinstance(known, Two) else float(known)  # type: ignore[arg-type]


def _mapped(function: Callable[..., Any], given: Sequence[Known]) -> Known:
    both = (
        [getattr(each, which) if isinstance(each, Two) else each for each in given] for which in ("first", "second")
    )
    try:
        first, second = (function(*some) for some in both)
    except (ValueError, ZeroDivisionError, OverflowError):
        return math.nan
    return either(first, second)


def _merged(a: Any, b: Any) -> Any:
    """Return a parameter with its values in both calls merged."""
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)) and not hasattr(a, "_fields"):
        if len(a) != len(b):
            raise UnreadableError("the number of something follows from extents")
        return tuple(_merged(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, bool) or not hasattr(a, "__index__") or not hasattr(b, "__index__"):
        return a
    return either(int(a), int(b))
