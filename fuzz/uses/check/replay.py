"""A check against the reference itself, replayed in float64: for what no formula is read from, and on request alone."""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.base.stream import Dice, Stream
from fuzz.generate.menus import MENUS
from fuzz.generate.recipes import Recipe, RowSpec
from fuzz.uses.check.function import Arrays
from fuzz.uses.check.plan import GIVEN, CheckPlan, Seed, plan
from fuzz.uses.check.results import CheckError, CheckFailed, told
from oracles.dtypes import FORMATS
from oracles.reference.asked import Asked, asked_of, name_of
from oracles.reference.derive import taken
from oracles.reference.dims import UnreadableError
from oracles.reference.replay import RUNS, TIMES, Replayed, replayed

__tracebackhide__ = told
WEAKER = (
    f"oracle: replay, weaker than a formula: errors below what {RUNS} replays of the reference differ by that round at "
    f"random, {TIMES:g} times as coarsely as f32, are not seen, nor those where that may turn a decision"
)
_EXTENTS = (4, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 129, 255, 256, 257)
_MOST = 1 << 13
"""No tensor has more elements: a case is replayed twenty times."""
_TRIES = 16
"""A reference may raise for so many draws one after the other before it is said to take none."""
_AFTER = 48
"""Once a case has failed, these many more are tried, for one with fewer elements."""


@dataclass(frozen=True)
class _Case:
    """One input."""

    arrays: Mapping[str, NDArray[Any]]
    recipes: Mapping[str, str]

    @property
    def elements(self) -> int:
        return sum(each.size for each in self.arrays.values())

    @property
    def text(self) -> str:
        """Its shapes, and what they are drawn from."""
        words = (f"{name} {'x'.join(map(str, each.shape)) or 'scalar'}" for name, each in self.arrays.items())
        return ", ".join(f"{word} ({self.recipes[name]})" for word, name in zip(words, self.arrays, strict=True))


@dataclass(frozen=True)
class Replay:
    """A kernel that is held against a replay."""

    kernel: Callable[..., Any]
    asked: Asked
    dtypes: Mapping[str, str]
    """The dtype of each tensor, as torch calls it."""
    dtype: str
    """The dtype of floats, as a kernel is given them."""
    arrays: Arrays
    values: Mapping[str, str] | str
    multiple: int
    least: int

    def run(self, todo: CheckPlan) -> None:
        """Try cases; raise CheckFailed for the smallest that fails."""
        name, began = name_of(self.kernel), time.monotonic()
        failed: tuple[_Case, str] | None = None
        cases = judged = last = 0
        for case in self._cases(todo.seed):
            over = todo.max_time is not None and time.monotonic() - began > todo.max_time
            if over or cases == todo.max_cases or (failed is not None and cases > last + _AFTER):
                break
            cases += 1
            wrong, elements = self._wrong(case)
            judged += elements
            if wrong and (failed is None or case.elements < failed[0].elements):
                failed, last = (case, wrong), last or cases
        if failed is not None:
            case, wrong = failed
            lines = [
                f"FAIL  {name}  {wrong}",
                f"  {case.text}, {self.dtype}",
                f"  {WEAKER}",
                f"  again: {todo.command}",
            ]
            raise CheckFailed("\n".join(lines))
        if not judged:
            raise CheckFailed(f"NOTHING WAS JUDGED: no element of {cases} cases is decided by a replay")
        passed = f"{name} passed a replay: {cases} cases, {judged:,} elements judged, seed {todo.seed}"
        GIVEN.passed += [passed, f"  {WEAKER}"]
        print(passed, f"  {WEAKER}", sep="\n", file=sys.stderr)

    def _cases(self, seed: int) -> Iterator[_Case]:
        refused, number = 0, 0
        while True:
            case = self._drawn(Dice(Stream(seed).child(f"case {number}")), Stream(seed).child(f"values {number}"))
            number += 1
            try:
                self.asked.call(**{name: self._tensor(each) for name, each in case.arrays.items()})
            except Exception as error:  # whatever it raises: it has no meaning there
                refused += 1
                if refused > _TRIES:
                    raise CheckError(
                        f"oracle='replay': the reference raises {type(error).__name__}: {error}"
                    ) from error
                continue
            refused = 0
            yield case

    def _drawn(self, dice: Dice, stream: Stream) -> _Case:
        names = [*dict.fromkeys(dim for dims in self.asked.dims.values() for dim in dims)]
        sizes = {dim: max(self.multiple * dice.pick(_EXTENTS), self.least) for dim in names} | dict(self.asked.fixed)
        while max((int(np.prod([sizes[dim] for dim in dims])) for dims in self.asked.dims.values()), default=0) > _MOST:
            longest = max((dim for dim in names if dim not in self.asked.fixed), key=lambda dim: sizes[dim])
            sizes[longest] = max(self.multiple * (sizes[longest] // (2 * self.multiple)), 1)
        arrays, recipes = dict[str, NDArray[Any]](), dict[str, str]()
        for name, dims in self.asked.dims.items():
            shape = tuple(sizes[dim] for dim in dims)
            if self.dtypes[name] == "bool" or "int" in self.dtypes[name]:
                most = 1 if self.dtypes[name] == "bool" else max(min(sizes.values(), default=1) - 1, 0)
                drawn = stream.child(name).integers(int(np.prod(shape)), 0, most)
                arrays[name], recipes[name] = drawn.reshape(shape).astype(self.dtypes[name]), "places"
                continue
            known = {each: recipe for each, recipe in self._menu(name, dims).items() if isinstance(recipe, Recipe)}
            recipes[name] = dice.pick([*known])
            rows, n = (int(np.prod(shape[:-1])), shape[-1]) if shape else (1, 1)
            values = known[recipes[name]].draw(RowSpec(rows, n, self.dtype), stream.child(name))
            arrays[name] = values.astype(np.float64).reshape(shape)
        return _Case(arrays, recipes)

    def _menu(self, name: str, dims: Sequence[str]) -> Mapping[str, Any]:
        menu = self.values if isinstance(self.values, str) else self.values.get(name, "finite")
        one = menu == "finite" and len(dims) == 1 and len(self.asked.dims) > 1
        return MENUS["finite_factor" if one else menu].recipes

    def _tensor(self, array: NDArray[Any]) -> Any:
        import torch

        names = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16}
        found = torch.from_numpy(array.copy())
        return found.to(names[self.dtype]) if array.dtype.kind == "f" else found

    def _wrong(self, case: _Case) -> tuple[str, int]:
        """What is wrong with what a kernel returns; "" if nothing is. And how many elements were judged."""
        try:
            wanted, judged = replayed(self.asked.call, case.arrays), 0
        except Exception:  # whatever it raises, such as of a singular matrix: what it is not meant for is not judged
            return "", 0
        try:
            returned = self._called(case)
        except Exception as error:
            return f"raised {type(error).__name__}: {' '.join(str(error).split())[:200]}", 0
        if len(returned) != len(wanted):
            return f"returned {len(returned)} outputs, where the reference has {len(wanted)}", 0
        for at, (got, one) in enumerate(zip(returned, wanted, strict=True)):
            output = f"output {at}" if len(wanted) > 1 else "the output"
            if got.shape != one.value.shape:
                return f"{output} has the shape {list(got.shape)}, where the reference has {list(one.value.shape)}", 0
            known = np.isfinite(one.value) & np.isfinite(one.allowed)
            judged += int(known.sum())
            width = one.allowed + FORMATS[self.dtype].u * (np.abs(one.value) + one.allowed)
            with np.errstate(all="ignore"):
                wrong = known & ~(np.abs(got - one.value) <= width)
            if wrong.any():
                return self._told(output, got, one, width, wrong), judged
        return "", judged

    @staticmethod
    def _told(output: str, got: NDArray[Any], one: Replayed, width: NDArray[Any], wrong: NDArray[Any]) -> str:
        share = np.where(wrong, np.abs(got - one.value) / width, -1.0)
        at = np.unravel_index(int(np.nanargmax(np.where(np.isnan(share), np.inf, share))), got.shape)
        value, far = float(one.value[at]), float(width[at])
        place = ", ".join(str(int(each)) for each in at)
        return (
            f"wrong values\n    {output}[{place}] = {float(got[at]):.8g}, must be {value:.8g} (or {value - far:.8g} to "
            f"{value + far:.8g}); {int(wrong.sum())} of {got.size} elements are wrong"
        )

    def _called(self, case: _Case) -> Sequence[NDArray[Any]]:
        import torch

        tensors = {name: self._tensor(each) for name, each in case.arrays.items()}
        given: Mapping[str, Any] = tensors
        if self.arrays == "numpy":
            given = {name: each.numpy() for name, each in tensors.items()}
        returned = self._kernel_of(given)
        flat = [*returned.values()] if isinstance(returned, Mapping) else returned
        flat = [*flat] if isinstance(flat, (list, tuple)) else [flat]
        return [torch.as_tensor(each).detach().to(torch.float64).numpy() for each in flat]

    def _kernel_of(self, given: Mapping[str, Any]) -> Any:
        called = {self.asked.called.get(name) or name: each for name, each in given.items()}
        try:
            parameters = {*inspect.signature(self.kernel).parameters}
        except (TypeError, ValueError):
            return self.kernel(*given.values())
        constants = {name: value for name, value in self.asked.constants.items() if name in parameters}
        if {*called} <= parameters:
            return self.kernel(**called, **constants)
        return self.kernel(*given.values(), **constants)


@dataclass(frozen=True)
class Wanted:
    """What is said of a check against a replay."""

    shapes: Mapping[str, str] | str | None
    example_inputs: Sequence[Any] | Mapping[str, Any] | None
    values: Mapping[str, str] | str | None
    fixed: Mapping[str, int] | None
    dtypes: Sequence[str]
    arrays: Arrays
    seed: Seed
    max_cases: int | None
    max_time: float | None


def check_by_replay(kernel: Callable[..., Any], reference: Callable[..., Any], wanted: Wanted) -> None:
    """Hold a function against a reference that is run in float64. Raises CheckFailed and CheckError."""
    if GIVEN.asked is not None:
        return
    values = "finite" if wanted.values is None else wanted.values
    if unknown := [menu for menu in ([values] if isinstance(values, str) else values.values()) if menu not in MENUS]:
        raise CheckError(f"values: {unknown[0]!r} is not one of {', '.join(MENUS)}")
    dtype = wanted.dtypes[0]
    if dtype not in ("f32", "f64", "bf16", "f16") or (wanted.arrays == "numpy" and dtype == "bf16"):
        raise CheckError(f"oracle='replay': tensors of {dtype} are not compared with a replay")
    try:
        meant = asked_of(reference, wanted.shapes, wanted.example_inputs, {}, wanted.fixed or {}, values, twice=True)
        asked, drawn, dtypes = taken(next(iter(meant)))
    except UnreadableError as error:
        raise CheckError(f"reference {name_of(reference)}: {error}") from error.__cause__
    if asked.library == "jax":
        raise CheckError(f"reference {name_of(reference)}: oracle='replay' is for references in torch or NumPy")
    todo = plan(name_of(kernel), wanted.seed, wanted.max_cases, wanted.max_time)
    Replay(kernel, asked, dtypes, dtype, wanted.arrays, values, drawn.times, drawn.least if drawn.least > 1 else 1).run(
        todo
    )
