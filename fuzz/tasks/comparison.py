"""The judgement of single results of torch, by a formula that is read from how they are calculated, or by a replay; and
of the comparisons in a user's tests, in place of their tolerances."""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from pkgutil import resolve_name
from typing import Any
from unittest.mock import patch

import numpy as np

from fuzz.campaign.tolerance import TORCH
from fuzz.core.base.errors import error_line
from fuzz.core.base.text import counted
from fuzz.core.transport.python.arrays import TorchArrays
from fuzz.core.transport.python.halves import in_halves, is_complex
from fuzz.references.parts import parted_of
from fuzz.references.replay.oracle import compared
from fuzz.references.rerun import replayed, ways_of
from fuzz.references.residuals import equations_of, solves
from fuzz.references.tracing import tensors_in
from fuzz.tasks.bound import ReadTask, array_of
from fuzz.tasks.check.results import CheckError
from fuzz.tasks.expression import CalledValue, UnknownSourceError, argument, called_value
from fuzz.tasks.history import ConstantValueError, History, UnknownHistoryError, ValueOrigin
from fuzz.tasks.special import strayed
from oracles.dtypes import DOUBLE
from oracles.formula.contract import INPUT

FORMULA, REPLAY, MPMATH = "formula", "replay", "mpmath"
RIGHT, WRONG, OPEN = "right", "wrong", "not judged"
_EACH_STEP_ROUNDS = {"compute": INPUT, "wider": True}
"""The contract of several operations of torch one after the other, which return results in the dtype of the inputs."""
_MOST_ELEMENTS = 1 << 20
"""Larger results are not judged: they take a second or more. Chosen."""
_MOST_GIVEN = 1 << 22
"""More elements of inputs are not judged either, such as those of a loss. Chosen."""
_NAN = float("nan")
_NUMPY = ("assert_allclose", "assert_almost_equal", "assert_approx_equal", "assert_array_almost_equal",
          "assert_array_almost_equal_nulp", "assert_array_max_ulp")  # fmt: skip
_SCIPY = ("scipy._lib._array_api.xp_assert_close",)
_CALLER = 2
"""The frames between a test and what judges its comparison."""
_MEASURED = 8
"""The comparisons of one line of a test whose tolerance is measured, which takes as long as judging. Chosen."""
_FAR = 10.0
"""A tolerance that is wider by more than this factor is told. Chosen."""


@dataclass(frozen=True)
class JudgedCall:
    """What was found out about the result of one call."""

    by: str = ""
    """What judged it: `FORMULA`, `REPLAY`, `MPMATH` or ""."""
    result: str = OPEN
    said: str = ""
    """What is wrong, or why nothing is judged."""
    unread: str = ""
    """Why no formula is read."""
    task: ReadTask | None = field(default=None, repr=False, compare=False)
    """The task by whose formula it is judged."""

    @classmethod
    def of(
        cls, reference: Callable[..., Any], tensors: Mapping[str, Any], returned: Any, operations: Sequence[Any],
        dtype: str, *, steps_round: bool, read: ReadTask | str | None = None,
    ) -> JudgedCall:  # fmt: skip
        """Judge what a call returned whose operations are those of `reference` for these tensors. `steps_round` says
        that each operation returns numbers of 16 bits, and `read` what came of reading the reference before."""
        import torch

        task = reading_of(reference, tensors) if read is None else read
        if isinstance(task, ReadTask):
            try:
                own = ReadTask.of_read(task.derived, tensors, _EACH_STEP_ROUNDS if steps_round else None)
                return cls.by_formula(own, returned)
            except CheckError as error:
                task = str(error)
        if any(torch.Tag.nondeterministic_seeded in each.tags for each in operations):
            return cls(said="draws at random", unread=task)
        if operations and all("empty" in each._schema.name for each in operations):
            return cls(said="returns memory as it was", unread=task)
        if dtype == DOUBLE.name:
            return cls(said="a replay in float64 would compare it with itself", unread=task)
        if steps_round:
            return cls(said="rounds between several operations in 16 bits, and is not read", unread=task)
        return cls._by_replay(reference, tensors, returned, operations, dtype, task)

    @classmethod
    def by_formula(cls, task: ReadTask, returned: Any) -> JudgedCall:
        """Judge what a call returned whose reference was read. Raises CheckError."""
        found = task.judged(returned)
        wrong = "; ".join(each.said for each in found if each.result in ("numeric", "nonfinite"))
        late = "; ".join(each.said for each in found if each.result == "gave_up")
        return cls(FORMULA, WRONG if wrong else OPEN if late else RIGHT, wrong or late, task=task)

    @classmethod
    def _by_replay(
        cls, reference: Callable[..., Any], tensors: Mapping[str, Any], returned: Any, operations: Sequence[Any],
        dtype: str, unread: str,
    ) -> JudgedCall:  # fmt: skip
        try:
            if any(map(is_complex, [*tensors.values(), *tensors_in(returned)])):
                parted = parted_of(reference, None, tensors, None)
                reference, tensors, returned = (
                    parted.reference(reference),
                    parted.examples(tensors),
                    in_halves(returned),
                )
            inputs = dict(zip(tensors, arrays_of(tensors.values()), strict=True))
            replays = replayed(ways_of(reference), inputs)
            for each in equations_of(reference, inputs) if solves(operations) else ():
                replays = [replace(one, equation=each) if at in each.parts else one for at, one in enumerate(replays)]
        except Exception as error:  # torch's own, about float64
            return cls(said=f"is not replayed: {error_line(error)}", unread=unread)
        found = compared(replays, arrays_of(tensors_in(returned)), dtype)
        if found.wrong:
            return cls(REPLAY, WRONG, " ".join(found.wrong.split()), unread)
        return cls(REPLAY, RIGHT, unread=unread) if found.judged else cls(said="nothing is decided", unread=unread)


def reading_of(reference: Callable[..., Any], tensors: Mapping[str, Any]) -> ReadTask | str:
    """Return the task that is read from a reference, or why none is."""
    try:
        return ReadTask.of(reference, tensors)
    except (CheckError, RecursionError) as error:
        return str(error)


def arrays_of(tensors: Any) -> Sequence[Any]:
    """Return tensors as arrays, floats as float64."""
    return [np.array((each.double() if each.is_floating_point() else each).detach().cpu().numpy()) for each in tensors]


def effect(task: ReadTask, atol: float, rtol: float, dtype: str | None = None) -> tuple[float, float]:
    """Return the effect of a tolerance on an output of a read task: its median over the elements, by the largest error
    of a right kernel, and the share of elements for which a right kernel may be off by more than that. NaN if there
    is no number. `dtype` is that of the output, by default that of the first input. Of complex numbers the error is
    that of both parts together."""
    names = [each.name for each in task.derived.op.outputs] if task.derived.parted else [""]
    bounds = [task.bound(name, dtype=dtype) for name in names]
    found = [(each.exact, each.low, each.high) for each in bounds]
    ends = [arrays_of(each) if task.like is not None else each for each in found]
    with np.errstate(all="ignore"):
        size, error = (
            np.sqrt(sum(np.square(each) for each in some))
            for some in zip(*((exact, np.maximum(high - exact, exact - low)) for exact, low, high in ends), strict=True)
        )
        by = (atol + rtol * size) / error
    by = by[np.isfinite(by)]
    return (float(np.median(by)), float((by < 1.0).mean())) if by.size else (_NAN, _NAN)


@dataclass(frozen=True)
class SuiteComparison:
    """One comparison of a user's test."""

    place: str
    """The file and line, such as "test_mine.py:12"."""
    passed: bool
    """Whether its tolerance passes it."""
    by: str
    """What judged it, and the result, as in `JudgedCall`."""
    result: str
    said: str
    wider: float = _NAN
    """The median, over elements, of the tolerance by the largest error of a right kernel."""
    tight: float = _NAN
    """The share of elements for which a right kernel may be off by more than the tolerance."""


def told(found: Sequence[SuiteComparison]) -> Iterator[str]:
    """Yield the lines about comparisons: counts, then those that let an error through, those that refuse what is right,
    and tolerances that are far too wide or cannot be met."""
    judged = [each for each in found if each.by]
    wrong = sum(each.result == WRONG for each in judged)
    yield f"{counted(len(found), 'comparison')}: {len(judged)} judged, {wrong} wrong"
    for each in dict.fromkeys(each for each in found if each.result == WRONG):
        yield f"{each.place}: wrong, and its tolerance {'passes' if each.passed else 'fails'} it: {each.said}"
    for each in dict.fromkeys(each for each in judged if each.result == RIGHT and not each.passed):
        yield f"{each.place}: right, and its tolerance fails it"
    places = dict.fromkeys(each.place for each in judged)
    for place in places:
        wide = [each.wider for each in judged if each.place == place and each.wider > _FAR]
        tight = [each.tight for each in judged if each.place == place and each.tight > 0]
        if wide:
            yield f"{place}: its tolerance is {max(wide):,.0f} times the largest error of a right kernel"
        elif tight:
            yield f"{place}: a right kernel may be off by more than its tolerance at {max(tight):.0%} of the elements"
    unjudged = [each for each in found if not each.by]
    for why, times in Counter(each.said for each in unjudged).items():
        first = next(each.place for each in unjudged if each.said == why)
        yield f"{first}: not judged{f', as {times - 1} more' if times > 1 else ''}: {why}"


@dataclass
class Comparisons:
    """Judges the comparisons of a user's tests, by torch, NumPy and SciPy."""

    found: list[SuiteComparison] = field(default_factory=list)
    """The comparisons of the running test."""
    _history: History | None = None
    _read: dict[Any, tuple[ReadTask | str, Sequence[Any]]] = field(default_factory=dict)
    """What came of reading calls of NumPy and SciPy."""

    @contextmanager
    def judging(self) -> Iterator[None]:
        """Record a test in this context, and judge its comparisons."""
        self.found, self._history = [], History()
        try:
            with self._history.recording():
                yield
        finally:
            self._history = None

    @contextmanager
    def replacing(self) -> Iterator[None]:
        """Replace the comparisons by ones that fail for what is wrong and pass what is right, by how the expected value
        was calculated. What cannot be judged is compared as always. Tests that import their names come later."""
        import torch

        alike = torch.allclose

        @wraps(alike)
        def allclose(one: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
            return bool(self._compared(alike, (one, other), {"rtol": rtol, "atol": atol, "equal_nan": equal_nan}))

        with ExitStack() as replaced:
            replaced.enter_context(patch("torch.allclose", allclose))
            for named in ("torch.testing.assert_close", *(f"numpy.testing.{each}" for each in _NUMPY), *_SCIPY):
                with suppress(ImportError, AttributeError):  # SciPy is not here, or has no such function yet
                    replaced.enter_context(patch(named, self.judged(resolve_name(named))))
            yield

    def judged(self, comparison: Callable[..., Any]) -> Callable[..., Any]:
        """Return a comparison, of which the first two tensors are judged, in place of one that raises AssertionError
        or returns False where they differ."""

        @wraps(comparison)
        def compared(*args: Any, **named: Any) -> Any:
            __tracebackhide__ = True
            return self._compared(comparison, args, named)

        return compared

    def _compared(self, comparison: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        import torch

        __tracebackhide__ = True
        if self._history is None or self._history.is_paused:
            return comparison(*args, **named)
        returned, error = None, None
        with self._history.paused():
            try:
                returned = comparison(*args, **named)
            except AssertionError as raised:
                error = raised
            passed = error is None and returned is not False
            given = _arguments(comparison, args, named)
            tensors = [each for each in given.values() if isinstance(each, torch.Tensor)]
            of_arrays = not tensors and len(given) > 1
            if of_arrays:
                seen = self._see_array(sys._getframe(_CALLER), given, passed)
                actual = expected = None
            else:
                actual, expected = [*tensors, None, None][:2]
                seen = self._see(actual, expected, given.get("atol", _NAN), given.get("rtol", _NAN), passed)
        # Of arrays the value is right, and not what the test says of it.
        is_right = seen.result == RIGHT and not of_arrays and _differ_in_values(actual, expected)
        if isinstance(returned, bool):
            return is_right or (passed and seen.result != WRONG)
        if seen.result == WRONG:
            raise AssertionError(f"kernelfuzz: {seen.said}") from error
        if error is not None and not is_right:
            raise error
        return returned

    def _see(self, actual: Any, expected: Any, atol: float | None, rtol: float | None, passed: bool) -> SuiteComparison:
        own = actual.real if is_complex(actual) else actual
        dtype = next((name for name, each in TorchArrays().dtypes.items() if each == getattr(own, "dtype", "")), "")
        judged = self._judged(actual, expected, dtype)
        wider = tight = _NAN
        if judged.task is not None:
            usual = TORCH[dtype]
            both = (usual.absolute if atol is None else atol), (usual.relative if rtol is None else rtol)
            wider, tight = effect(judged.task, *both, dtype)
        self.found.append(SuiteComparison(_place(), passed, judged.by, judged.result, judged.said, wider, tight))
        return self.found[-1]

    def _see_array(self, frame: Any, given: Mapping[str, Any], passed: bool) -> SuiteComparison:
        """Judge the first of two compared arrays that calls of NumPy and SciPy made, by these calls."""
        judged, wider, tight = JudgedCall(said="compares no arrays of floats"), _NAN, _NAN
        place = _place()
        for at, (name, value) in enumerate([*given.items()][:2]):
            array = np.asarray(value)
            if array.dtype.kind not in "fc" or array.size > _MOST_ELEMENTS or judged.by:
                continue
            try:
                judged = self._read_and_judged(called_value(argument(frame, name, at), array), array)
                tolerance = _tolerance(given, array.dtype)
                if judged.task is not None and tolerance is not None and self._is_new(place):
                    wider, tight = effect(judged.task, *tolerance, array_of(array.real, place)[1])
            except UnknownSourceError as error:
                judged = judged if judged.unread else JudgedCall(said=f"the value: {error}")
            except CheckError as error:
                judged = JudgedCall(said=str(error))
            except Exception as error:  # what we cannot judge for a fault of ours fails no test of others
                judged = JudgedCall(said=f"an error of kernelfuzz: {error_line(error)}")
        self.found.append(SuiteComparison(place, passed, judged.by, judged.result, judged.said, wider, tight))
        return self.found[-1]

    def _is_new(self, place: str) -> bool:
        return sum(each.place == place for each in self.found) < _MEASURED

    def _read_and_judged(self, made: CalledValue, value: Any) -> JudgedCall:
        key = made.key, *((each.shape, each.dtype.str) for each in made.inputs.values())
        if key not in self._read:
            self._read[key] = reading_of(made.reference, made.inputs), made.kept
        task, _ = self._read[key]
        if isinstance(task, str):
            known = None if made.args is None or is_complex(value) else strayed(made.kept[0].__name__, made.args, value)
            if known is not None:
                return JudgedCall(MPMATH, WRONG if known else RIGHT, known, task)
            return JudgedCall(said=task.rpartition("cannot be read: ")[2], unread=task)
        return JudgedCall.by_formula(ReadTask.of_read(task.derived, made.inputs), value)

    def _judged(self, actual: Any, expected: Any, dtype: str) -> JudgedCall:
        if dtype not in TORCH or getattr(expected, "shape", None) != actual.shape:
            return JudgedCall(said="compares no tensors of floats of one shape")
        if actual.numel() > _MOST_ELEMENTS:
            return JudgedCall(said=f"more than {_MOST_ELEMENTS:,} elements")
        try:
            made, judged, kept = self._made(actual, expected)
            if sum(each.numel() for each in made.inputs.values()) > _MOST_GIVEN:
                return JudgedCall(said=f"more than {_MOST_GIVEN:,} elements of inputs")
            found = _by_origin(made, judged, dtype)
            if found.result == WRONG and (own := _by_origin(made, kept, dtype)).result == WRONG:
                # Of a test whose own expected value is no better, the formula may not say what it means.
                return JudgedCall(said=f"the expected value is wrong as well: {own.said}")
            return found
        except UnknownHistoryError as error:
            return JudgedCall(said=f"the expected value: {error}")
        except CheckError as error:
            return JudgedCall(said=str(error))
        except Exception as error:  # what we cannot judge for a fault of ours fails no test of others
            return JudgedCall(said=f"an error of kernelfuzz: {error_line(error)}")

    def _made(self, actual: Any, expected: Any) -> tuple[ValueOrigin, Any, Any]:
        """Return how the expected value was made, the value that is judged, and the expected one. Suites have them in
        either order: if the second value is a kernel's, the first is expected."""
        assert self._history is not None
        try:
            return self._history.provenance(expected), actual, expected
        except ConstantValueError:
            raise
        except UnknownHistoryError as error:
            if actual.dtype != expected.dtype:
                raise
            try:
                return self._history.provenance(actual), expected, actual
            except UnknownHistoryError as own:
                raise UnknownHistoryError(f"{error}, and the other value: {own}") from None


def _by_origin(made: ValueOrigin, value: Any, dtype: str) -> JudgedCall:
    return JudgedCall.of(
        made.reference, made.inputs, value.detach(), made.operations, dtype, steps_round=made.steps_round
    )


def _arguments(comparison: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of a call by their names, with those that have a default."""
    try:
        bound = inspect.signature(comparison).bind(*args, **named)
    except (TypeError, ValueError):  # a function in C has no signature
        return {**{str(at): each for at, each in enumerate(args)}, **named}
    bound.apply_defaults()
    return bound.arguments


def _tolerance(given: Mapping[str, Any], dtype: Any) -> tuple[float, float] | None:
    """Return the absolute and the relative tolerance of a comparison of arrays."""
    if "decimal" in given:
        return 1.5 * 10.0 ** -given["decimal"], 0.0
    if "rtol" not in given:
        return None
    rtol, atol = given["rtol"], given.get("atol", 0.0)
    return atol or 0.0, float(np.spacing(np.array(1, dtype))) ** 0.5 * 4 if rtol is None else rtol


def _differ_in_values(one: Any, other: Any) -> bool:
    """Whether two tensors differ in finite values at most: the judge says nothing of dtypes, devices and overflow."""
    if (one.dtype, one.device) != (other.dtype, other.device):
        return False
    return bool(one.isfinite().all()) and bool(other.isfinite().all())


def _place() -> str:
    """Return the file and line of the test that compares, which a helper of the suite may do for it, and a decorator of
    torch may call."""
    frame, before = sys._getframe(1), None
    while frame.f_back is not None and (package := frame.f_globals.get("__name__", "").partition(".")[0]) != "_pytest":
        frame, before = frame.f_back, before if package == "torch" else frame
    found = before or frame
    return f"{Path(found.f_code.co_filename).name}:{found.f_lineno}"
