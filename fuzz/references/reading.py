"""The reading of a recorded reference: the rule of each step's operation turns the step into lines of a formula."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fuzz.references.dims import ONE, Axis, Dim, FurtherCallsError, MisfitError, Pair, UnreadableError, extent
from fuzz.references.lines import number, template
from fuzz.references.maps import as_axis, spread, taken_at, with_axis
from fuzz.references.names import locals_of
from fuzz.references.recording import Use, fault
from fuzz.references.scope import (
    COMPLEX,
    ITERATIONS,
    NOTES,
    Complex,
    ComplexResultError,
    Number,
    Scope,
    UnknownStepError,
    Value,
)
from oracles.dtypes import CODED

_CHOOSING = "where", "masked_fill", "clamp", "clamp_min", "clamp_max", "mul"
"""Operations that may return places unchanged or choose among places; a product with flags does so too."""
_CASTS = "_to_copy", "to", "lax.convert_element_type"
"""Casts, which do not count as operations: read in f32 the reference has none."""


@dataclass
class Reader(Scope):
    """The reader of a recording's steps."""

    def read(self) -> Sequence[Value]:
        """Read all steps, and return the outputs. Raises UnreadableError, which names the line of the reference."""
        names = locals_of([step.at for step in self.recording.steps])
        inputs, needed = iter(self.inputs.items()), self._needed()
        for at, step in enumerate(self.recording.steps):
            self.step = step
            if at not in needed and step.op != "input":
                self._values.append(None)
                continue
            try:
                found = self._input(*next(inputs)) if step.op == "input" else self._calculated()
                for each in found if isinstance(found, (list, tuple)) else [found]:
                    self._check(each)
            except FurtherCallsError:
                raise
            except Exception as error:  # also a bug of a rule
                where = f" ({step.at[0]})" if step.at else ""
                said = str(error) if isinstance(error, UnreadableError) else fault(error)
                kind = UnknownStepError if isinstance(error, UnknownStepError) else UnreadableError
                raise kind(f"{self.word}{where} {said}") from None
            self._values.append(found)
            if at in names and isinstance(found, Value):
                for part in (found.expression, found.condition):
                    if part is not None:
                        self.lines.call(part, names[at])
        outputs = [self._argument(use) for use in self.recording.outputs]
        if any(_is_complex(each) or "complex" in each.dtype for each in outputs):
            raise ComplexResultError("it returns complex numbers")
        return outputs

    def _needed(self) -> frozenset[int]:
        """Return the steps on which outputs depend, and those that change values in place."""
        found, steps = set[int](), self.recording.steps
        changing = (at for at, step in enumerate(steps) if step.op.endswith("_") or step.op == ITERATIONS)
        waiting = [*self.recording.outputs, *map(Use, changing)]
        while waiting:
            at = waiting.pop().step
            if at not in found:
                found.add(at)
                waiting += _uses(steps[at].given.values())
        return frozenset(found)

    def _input(self, name: str, dims: tuple[Dim, ...]) -> Value:
        expression = ast.Name(name)
        dtype = self.step.dtype
        axes = tuple((dim,) for dim in dims)
        if dtype == "torch.bool":
            return Value(expression, axes, frozenset(dims), dtype, condition=expression)
        is_index = "int" in dtype and dtype.removeprefix("torch.") not in CODED
        found = Value(expression, axes, frozenset(dims), dtype, places=name if is_index else "")
        for at, dim in enumerate(dims if not found.places else ()):
            if dim.sizes == ONE:  # it broadcasts
                found = with_axis(taken_at(self, found, dim, number(0.0), ()), at, ())
            elif dim.name in self.stated:
                found = spread(self, found, dim)
        return found

    def _calculated(self) -> Any:
        if self.step.op == "constant":
            return self._constant(self.step.given["value"])
        given = self.step.given
        arguments = {name: self._argument(each) for name, each in given.items()}
        is_complex = any(map(_is_complex, arguments.values()))
        op = f"{COMPLEX}{self.step.op}" if is_complex else self.step.op
        rule = self.rules.get(f"{op}.{self.step.overload}") or self.rules.get(op)
        changed = given.get("self") if rule is None and op.endswith("_") else None
        if isinstance(changed, Use) and self.recording.steps[changed.step].op not in NOTES:
            rule = self.rules.get(op[:-1])
        if rule is None:
            raise UnknownStepError(f"{'of complex numbers ' * is_complex}has no formula")
        before = len(self.lines.found)
        found = rule(self, **arguments)
        if isinstance(found, Value) and "float" not in self.step.dtype:  # such as a count of flags
            found = replace(found, dtype=self.step.dtype, places=found.places or self._chosen_places(given.values()))
        self.operations += len(self.lines.found) > before and op not in _CASTS
        if isinstance(changed, Use):  # in its place
            self._values[changed.step] = found
        return found

    def _constant(self, value: Any) -> Value | Complex:
        if value is None:
            raise UnreadableError("of several elements that the reference has from elsewhere: make it an argument")
        if isinstance(value, complex):
            return Complex(*(Value(self.number(each)) if each else None for each in (value.real, value.imag)))
        return Value(self.number(value), dtype=self.step.dtype)

    def _chosen_places(self, given: Iterable[Any]) -> str:
        """Return the name of the integer input whose values an operation keeps or replaces by numbers; "" for none."""
        if self.step.op not in _CHOOSING or "int" not in self.step.dtype:
            return ""
        values = [each for each in map(self._argument, given) if isinstance(each, Value)]
        return next((each.places for each in values if each.places), "")

    def _argument(self, given: Any) -> Any:
        if isinstance(given, Use):
            found = self._values[given.step]
            found = found if given.item is None else found[given.item]
            if found is None:
                step = self.recording.steps[given.step]
                raise UnreadableError(f"uses what aten.{step.op} returns beside its values, which has no formula")
            return found
        return [self._argument(each) for each in given] if isinstance(given, list) else given

    @staticmethod
    def _check(value: Any) -> None:
        dims = [dim for axis in value.axes for dim in axis] if isinstance(value, Value) else []
        twice = [dim.name for dim in dims if dims.count(dim) > 1]
        if twice:
            raise UnreadableError(f"has a tensor with the dimension {twice[0]!r} twice: give it two names in `shapes`")

    def each(self, text: str, hint: str = "t", /, **given: Value | Number) -> Value:
        """Return the value that an elementwise template makes of the given values."""
        made, axes, has = self._made(text, hint, given)
        values = [each for each in given.values() if isinstance(each, Value)]
        floats = [each.dtype for each in values if "float" in each.dtype and each.rank]
        return Value(made, axes, has, floats[0] if floats else self.step.dtype)

    def ways(self, value: Value, ways: Mapping[str, str], /, **given: Value | Number) -> Value:
        """Return a value after noting other expressions for it, by name: templates with the same exact value."""
        line = self.lines.line(value.expression) if value.expression is not None else None
        if line is not None:
            met = zip(given, self.met(*given.values()), strict=True)
            parts = {name: self.expression(each) for name, each in met}
            line.ways |= {name: template(text, **parts) for name, text in ways.items()}
        return value

    def compared(self, text: str, /, **given: Value | Number) -> Value:
        """Return the elementwise condition that a template makes of the given values."""
        made, axes, has = self._made(text, "mask", given)
        return Value(None, axes, has, "torch.bool", condition=made)

    def _made(
        self, text: str, hint: str, given: Mapping[str, Value | Number]
    ) -> tuple[ast.expr, tuple[Axis, ...], frozenset[Dim]]:
        given = dict(zip(given, self.met(*given.values()), strict=True))
        values = [each for each in given.values() if isinstance(each, Value)]
        axes = self.aligned(values)
        made = self.add(text, hint, **{name: self.expression(each) for name, each in given.items()})
        return made, axes, frozenset().union(*(each.has for each in values))

    def line(self, text: str, hint: str, like: Value, /, **given: Value | Number) -> Value:
        """Return the value that a template makes, with the axes of `like`."""
        return replace(self.each(text, hint, **given), axes=like.axes)

    def met(self, *given: Any) -> Sequence[Any]:
        """Return values ready to be combined elementwise, with the same dimensions along axes of equal extents; other
        arguments unchanged."""
        rank = max((each.rank for each in given if isinstance(each, Value)), default=0)
        return self._apart(self.alike(given, range(-rank, 0)), rank)

    def alike(self, given: Sequence[Any], places: Iterable[int]) -> list[Any]:
        """Return values with the same dimensions along those axes, of `places` from the end, that are equally long."""
        found = [*given]
        for at in places:
            there = [
                place
                for place, each in enumerate(found)
                if isinstance(each, Value) and each.rank >= -at and each.axes[at]
            ]
            finest = max((found[place].axes[at] for place in there), key=len, default=())
            for place in there:
                own = found[place].axes[at]
                if own != finest and extent(own) == extent(finest):
                    found[place] = as_axis(self, found[place], at, finest)
        return found

    def _apart(self, found: list[Any], rank: int) -> Sequence[Any]:
        """Return values in which no dimension lies along two axes, by copies of dimensions: in x[:, None] - x[None] the
        rows of both x need two names."""
        before = set[Dim]()
        for at in range(-rank, 0):
            there = {
                place: found[place].axes[at]
                for place, each in enumerate(found)
                if isinstance(each, Value) and each.rank >= -at and each.axes[at]
            }
            [axis, *others] = {*there.values()} or {()}
            if before & {*axis} and not others:
                copy = tuple(self.copy(dim, before) for dim in axis)
                for place in there:
                    found[place] = as_axis(self, found[place], at, copy)
                axis = copy
            before |= {*axis}
        return found

    def aligned(self, values: Sequence[Value]) -> tuple[Axis, ...]:
        """Return the axes of values combined elementwise."""
        rank, axes = max((each.rank for each in values), default=0), list[Axis]()
        for at in range(-rank, 0):
            there = [each.axes[at] for each in values if each.rank >= -at and each.axes[at]]
            if any(axis != there[0] for axis in there):
                words = " and ".join(dict.fromkeys("".join(dim.name for dim in axis) for axis in there))
                raise UnreadableError(f"takes {words} together, which have other extents elsewhere")
            axes.append(there[0] if there else ())
        return tuple(axes)

    def dim(self, pair: Pair) -> Axis:
        """Return an axis with this extent, for a tensor that the reference creates itself."""
        if pair == ONE:
            return ()
        for dim in self.sizes:
            if dim.sizes == pair:
                return (dim,)
        if (count := self.count_of(pair)) is not None:
            return self.sizes.axis(count, "part")
        raise MisfitError(
            f"makes an axis of {pair[0]} elements here and {pair[1]} with other extents: no argument has that one"
        )

    def axes(self, value: Value, dims: Any) -> list[int]:
        """Return the numbers of the axes `dims`, which may count from the end, or of all axes."""
        every = range(value.rank)
        numbers = [dims] if isinstance(dims, int) else [*(dims or every)]
        return sorted(every[at] for at in numbers) if value.rank else []

    def axis(self, value: Value, dim: int) -> int:
        """Return the number of the axis `dim`. Raises UnreadableError for a value without axes."""
        if not value.rank:
            raise UnreadableError("goes along an axis of a number, which has none: leave that out")
        return self.axes(value, dim)[0]

    def reduced(self, how: str, hint: str, value: Value, dims: Any, keep: bool, *others: Value) -> Value:
        """Return the reduction `how` of a value along axes; of several values, the sum of their products."""
        places = self.axes(value, dims)
        gone = [dim for at in places for dim in value.axes[at]]
        if any(dim.sizes == (0, 0) for dim in gone):
            raise UnreadableError("reduces what has no elements, whatever the extents: leave that out")
        axes = tuple(() if at in places else axis for at, axis in enumerate(value.axes) if keep or at not in places)
        values, has = (value, *others), value.has.union(*(each.has for each in others))
        names = "abcd"[: len(values)]
        there = [dim for dim in gone if dim in has]
        found = dict(zip(names, map(self.expression, values), strict=True))
        if there:
            text = f"f.{how}({', '.join(names)}, dims)"
            made = self.add(text, hint, **found, dims=there)
        else:
            made = self.add(" * ".join(names), hint, **found)
        for dim in gone if how in ("total", "dot") else ():
            if dim not in has:  # constant along it: counts that often
                made = self.add("a * f.extent(dim)", hint, a=made, dim=dim)
        return Value(made, axes, has - {*gone}, value.dtype)

    def count(self, value: Value, dims: Any) -> ast.expr:
        """Return the number of elements along axes."""
        gone = [dim for at in self.axes(value, dims) for dim in value.axes[at]]
        return template("f.extent(dims)", dims=gone) if gone else number(1.0)

    def with_count(self, text: str, hint: str, value: Value, count: ast.expr) -> Value:
        """Return the value that a template makes of a value, `self`, and a number of elements, `count`."""
        made = self.add(text, hint, self=value, count=count)
        return replace(value, expression=made, condition=None)


def _is_complex(given: Any) -> bool:
    return any(map(_is_complex, given)) if isinstance(given, list) else isinstance(given, (Complex, complex))


def _uses(given: Iterable[Any]) -> Iterator[Use]:
    for each in given:
        if isinstance(each, Use):
            yield each
        elif isinstance(each, (list, tuple)):
            yield from _uses(each)
