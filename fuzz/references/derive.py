"""The derivation of an op from a reference: its operands, its formula, and the line that sums up what was read."""

from __future__ import annotations

import ast
import inspect
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any

from fuzz.core.base.text import counted
from fuzz.core.transport.python.halves import is_complex, part_names, wholes_of
from fuzz.references.asked import AskedReference, Shapes, asked_of
from fuzz.references.backward import GIVEN, OF
from fuzz.references.dims import (
    NO_ELEMENTS,
    TURNS,
    Dim,
    Drawn,
    FurtherCallsError,
    MisfitError,
    NotTakenError,
    UnreadableError,
    parsed,
    third,
)
from fuzz.references.elementwise import dtype_of
from fuzz.references.fits import Calls
from fuzz.references.gates import compared_of, gates_of, is_integer
from fuzz.references.guard import Agreement, RunReference, difference_at, hold, hold_far
from fuzz.references.library import accepted, declared, held, recorded, shortens, specs_of, widens
from fuzz.references.maps import single, spread
from fuzz.references.names import returned_names
from fuzz.references.parameters import OF_PARTS, parameters_of, titled
from fuzz.references.parts import PARTS_SAID, Parted, parted_of
from fuzz.references.reading import Reader
from fuzz.references.recording import Recording, fault
from fuzz.references.reductions import LIMIT, LIMITS, forget
from fuzz.references.relations import multiples_of, rounded_of, said_of
from fuzz.references.rewrites import note
from fuzz.references.rules import RULES
from fuzz.references.scope import ComplexResultError, Value
from fuzz.references.selection import kept
from fuzz.references.sizes import Sizes
from fuzz.references.text import Formula, formula, identifier, written
from fuzz.references.transforms import make_room
from oracles.algorithm import BY_NORM, FORMULA
from oracles.dtypes import CODED
from oracles.formula.made import Counts, extents_of, follows
from oracles.formula.trace import FormulaError, ordered, trace
from oracles.op import Op
from oracles.operand import CODES, FLAGS, OUTER, Operand, OpError

FINITE, ANY = "finite", "any"
"""Menus of values: the default one, and the one with which NaN, infinities and overflow are judged too."""

_OPAQUE = re.compile(r"(^|_)(part|copy)\d*(_|$)|.{24}")
"""The names of parts and copies of dimensions, and those that are cut off; see `_plain`."""
_READ = 3
"""The most accepted calls for which a formula is read, if in each a number follows from extents in no known way."""
_MORE = 4
"""The calls beyond d, in pairs, to which a number that follows from d extents is fitted. 2 (d + 4) calls are 2 more
than a sum of extents, a product and a whole part needs, and the calls that confirm the fit."""


@dataclass(frozen=True)
class Derived:
    """An op that was read from a reference."""

    op: Op
    formula: Formula
    said: str
    """A summary of what was read, in one line."""
    left_out: str
    """A note about optional parameters that may be tensors and were not named; "" if there are none."""
    called: Mapping[str, str]
    """For each input its name in the reference, in the reference's order; "" if the reference has no names."""
    constants: Mapping[str, Any]
    """The values of the reference's other parameters, by name."""
    agreement: Agreement
    shortens: bool
    """Whether the reference casts some f64 value to f32 on the way."""
    widens: frozenset[str]
    """The outputs that the reference returns in f32 if its inputs have 16 bits."""
    reference: Callable[..., Any]
    """The reference as a function of the tensors alone, by their names in the op."""
    library: str
    """The library of the reference, "torch" or "jax"."""
    guarded: RunReference = field(repr=False)
    parted: Parted | None = None
    """The arguments of a reference whose complex tensors, or results, are read as their parts; None for others."""

    @property
    def complex_parts(self) -> frozenset[str]:
        """The inputs that are parts of complex tensors."""
        return frozenset() if self.parted is None else self.parted.parts

    def misread(self, arrays: Mapping[str, Any]) -> str:
        """Return how the reference differs from its formula for these inputs, or plain ones of the same shapes, which
        are beyond those that it was read at; "" if it does not."""
        return difference_at(self.op, self.guarded, arrays, self.agreement.positive)

    @property
    def module(self) -> str:
        """The text of a module that declares the op."""
        return written(self.op, self.formula, "; ".join(filter(None, (self.said, self.left_out))))


def derive(
    reference: Callable[..., Any],
    shapes: Shapes | None = None,
    *,
    example_inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    dtypes: Mapping[str, str] | None = None,
    fixed: Mapping[str, int] | None = None,
    values: Mapping[str, str] | str = FINITE,
    dtype: str = "float32",
    name: str = "",
) -> Derived:
    """Return the op whose formula calculates the same as a reference. Raises UnreadableError, which names the
    reference.

    `shapes` names the dimensions of tensors, as in {"x": "b n", "w": "n"} or "x=b n, w=n"; a leading `...` stands for
    any number of dimensions. Without `shapes` they are taken from the example inputs, or a single argument is "... n".
    `dtype` is the dtype of floating-point tensors in the calls: if it has 16 bits, roundings to it are read too.
    Complex tensors, by their `dtypes` or in examples, are read as their parts, and complex results too.
    """
    known: dict[str, Any] = {"example_inputs": example_inputs, "dtypes": dtypes, "fixed": fixed}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as those about a variance of one element
        shapes, known["dtypes"], counts = _with_gradients(reference, shapes, known)
        given = reference, shapes, known, values
        parted = parted_of(reference, shapes, example_inputs, known["dtypes"])
        if not parted.complexes:
            with suppress(ComplexResultError):
                return _of_reals(*given, counts, dtype, name)
        found = _of_reals(*parted.asked(*given), counts, dtype, name)
        return replace(found, parted=parted, said=f"{found.said}; {PARTS_SAID}")


def _of_reals(
    reference: Callable[..., Any], shapes: Shapes | None, known: Mapping[str, Any], values: Mapping[str, str] | str,
    counts: Counts, dtype: str, name: str,
) -> Derived:  # fmt: skip
    example_inputs, dtypes, fixed = (known[each] for each in ("example_inputs", "dtypes", "fixed"))
    meant = asked_of(reference, shapes, example_inputs, dtypes or {}, fixed or {}, values)
    asked = (replace(each, dtype=dtype, counts={**each.counts, **counts}) for each in meant)
    return _first(titled(reference), asked, name)


def op_of(reference: Callable[..., Any], shapes: Shapes | None = None, *, fields: Mapping[str, Any] | None = None,
          **options: Any) -> Op:  # fmt: skip
    """Return the op that `derive` reads from a reference with these options, for a pack. `fields` are further fields of
    the op, such as {"aliases": (("y", "x"),)}. Raises UnreadableError as `derive` does."""
    return replace(derive(reference, shapes, **options).op, **(fields or {}))


def _with_gradients(
    reference: Callable[..., Any], shapes: Shapes | None, known: Mapping[str, Any]
) -> tuple[Shapes | None, Mapping[str, str] | None, Counts]:
    """Return the dimensions and the dtypes of a gradient function's arguments, and the expressions of extents that
    follow from others. The dimensions of the gradients of outputs, and which are complex, follow from the forward
    function."""
    given: Sequence[str] = getattr(reference, GIVEN, ())
    named, numbers = ({}, {}) if shapes is None else parsed(shapes, twice=True)
    examples, dtypes = known["example_inputs"] or (), known["dtypes"] or {}
    shown = examples if isinstance(examples, Mapping) else [*parameters_of(reference)][: len(examples)] if given else ()
    if {*given} <= {*shown} or ({*given} <= {*named, *shown} and not any(map(is_complex, dtypes.values()))):
        return shapes, known["dtypes"], {}
    own = {name: " ".join(dims) for name, dims in named.items() if name not in given}
    theirs = {name: each for name, each in dtypes.items() if name not in given} or None
    found = derive(getattr(reference, OF), {**own, **numbers} or None, **{**known, "dtypes": theirs})
    made = found.op.made
    counts = {dim: made[dim] for each in found.op.outputs for dim in each.axes if dim in made}
    if unsaid := [dim for dim, count in counts.items() if not extents_of(count) or extents_of(count) & made.keys()]:
        raise UnreadableError(
            f"gradient of {found.op.name}: its output has {unsaid[0]!r} places, which follow from what no input has: "
            "give its dimensions in `shapes`, and sizes of windows in `fixed`, so that it has those of an input"
        )
    inputs = {found.called[each.name] or each.name: each.dims for each in found.op.inputs}
    outputs = {each.name: each.dims for each in found.op.outputs}
    if found.parted is not None:
        whole = zip(given, wholes_of([*outputs]), strict=True)
        dtypes = {**{name: "complex64" for name, output in whole if output not in outputs}, **dtypes}
        inputs, outputs = (
            {each: some.get(each) or some[part_names(each)[0]] for each in wholes_of([*some])}
            for some in (inputs, outputs)
        )
    said = {name: " ".join(named[name]) for name in given if name in named}
    return (
        {**inputs, **dict(zip(given, outputs.values(), strict=True)), **own, **said, **numbers},
        dtypes or None,
        counts,
    )


def _first(title: str, meant: Iterator[AskedReference], name: str) -> Derived:
    """Return the op read from the first meaning that can be read."""
    refused: UnreadableError | None = None
    is_taken = True
    try:
        for asked in meant:
            if asked.keeps and is_taken:
                break
            try:
                return _derived(asked, name)
            except ComplexResultError:
                raise
            except UnreadableError as error:
                refused = refused if asked.keeps and isinstance(error, NotTakenError) else error
            except (OpError, FormulaError) as error:  # the formula is that of no possible op
                refused = UnreadableError(str(error) if all(map(len, [*asked.dims.values()][:1])) else _without(asked))
            except ImportError:
                raise
            except Exception as error:  # a bug of this program is reported in one line, too
                refused = UnreadableError(fault(error, asked.reference))
            is_taken = is_taken if asked.keeps else not isinstance(refused, NotTakenError)
        assert refused is not None
        raise refused
    except UnreadableError as error:
        # Frames of an error inside the reference are useful; frames of this program say less than the message.
        raise type(error)(f"{title} cannot be read: {error}") from error.__cause__


def _without(asked: AskedReference) -> str:
    [name, *_] = asked.dims
    return f"its first tensor {name} has no dimensions: give it one, as {name}.reshape(1) has"


def _derived(asked: AskedReference, name: str) -> Derived:
    """Return the op read from the first accepted call that fits; in some calls numbers are equal by chance."""
    refused: MisfitError | None = None
    for tried, drawn, dtypes in islice(accepted(asked), _READ):
        try:
            return _read(tried, drawn, dtypes, name)
        except MisfitError as error:
            refused = refused or error
    assert refused is not None
    raise refused


def _read(
    asked: AskedReference, drawn: Drawn, dtypes: Mapping[str, str], name: str, stated: Collection[str] = (),
    missing: Mapping[str, int] | None = None, *, further: bool = False,
) -> Derived:  # fmt: skip
    """Return the op read from calls with these extents. If the reference compares places with a negative number, inputs
    may have that number too, unless it cannot be read so. `further` calls are made if two leave open how a number
    follows from extents."""
    dims = declared(asked, drawn)
    recording = _recorded(asked, dims, dtypes)
    free = {each: dim for each, dim in dims.items() if each not in asked.counts}
    made = {each: (dims[each], count) for each, count in asked.counts.items()}
    axes = {each: tuple(map(dims.__getitem__, some)) for each, some in asked.dims.items()}
    sizes = Sizes(free, made, asked.counts.keys() - {dim for some in asked.dims.values() for dim in some})
    calls, series = _further(asked, drawn, dtypes, dims, recording) if further else ({}, {})
    reader = Reader(recording, axes, RULES, sizes, stated=stated, missing=missing or {}, calls=calls, series=series)
    try:
        read = reader.read()
    except FurtherCallsError:
        return _read(asked, drawn, dtypes, name, stated, missing, further=True)
    if missing is None and reader.apart:
        with suppress(OpError, FormulaError):
            return _read(asked, drawn, dtypes, name, stated, reader.apart, further=further)
    note(reader.lines)
    is_strict, is_parted = asked.values == ANY, hasattr(asked.reference, OF_PARTS)
    forget(reader.lines, *(() if is_strict else LIMITS), *((BY_NORM,) if is_strict or not is_parted else ()))
    kinds = [dtype_of(each) for each in read]
    outputs = [_of_dims(reader, replace(reader.unrounded(each), dtype="torch.float32")) for each in read]
    reader.say_extents(outputs)
    transforms = () if is_strict else make_room(reader.lines, reader.sizes)
    names = output_names(asked, recording.names, len(outputs))
    own = inspect.getdoc(asked.reference) or ""
    summary = own.split("\n")[0].replace("\\", "").replace('"', "'").strip()
    shown = formula(
        identifier(name or asked.name, "reference"), [*asked.dims], reader.lines,
        dict(zip(names, map(reader.expression, outputs), strict=True)), summary,
    )  # fmt: skip
    operands, plain = _inputs(asked, dtypes, reader), _plain(reader, names, outputs)
    shown, operands = (
        shown.renamed(plain),
        tuple(replace(each, index=plain.get(each.index, each.index)) for each in operands),
    )
    their = [" ".join(plain.get(axis[0].name, axis[0].name) for axis in value.axes) for value in outputs]
    returned = tuple(Operand(each, own, dtype=kind) for each, own, kind in zip(names, their, kinds, strict=True))
    file = f"<formula of {asked.name}, {getattr(asked.reference, '__module__', '')}>"
    function, algorithms = shown.run(file, str(getattr(asked.reference, "__module__", "")))
    limits = {local: (FORMULA, LIMIT) for local, ways in algorithms.items() if LIMIT in ways}
    op = Op(function, operands, returned, fixed=dict(asked.fixed), algorithms=algorithms, open_ways=limits)
    floats = [name for name in asked.dims if name not in asked.dtypes and "float" in dtypes[name]]
    whole = compared_of(op) if floats else {}
    if sure := {name: "int64" for name in floats if whole.get(name)}:
        with suppress(OpError, FormulaError, UnreadableError):
            return _read(replace(asked, dtypes={**asked.dtypes, **sure}), drawn, {**dtypes, **sure}, name, stated,
                         missing, further=further)  # fmt: skip
    if unsaid := asked.counts.keys() - op.made.keys():
        if not unsaid <= {*stated}:
            return _read(asked, drawn, dtypes, name, {*stated, *unsaid}, missing, further=further)
        op = replace(op, multiples=multiples_of({each: asked.counts[each] for each in unsaid}))
    if unknown := follows(op.made, op.made) - {dim for each in op.operands for dim in each.axes}:
        raise MisfitError(f"how long {min(unknown)} is, which it makes on the way, follows from no tensor's dimensions")
    extents = [{each.name: each.sizes[which] for each in free.values()} for which in (0, 1)]
    try:
        agreement = hold(
            replace(op, square=asked.tied), held(asked), [*extents, third(free, asked.fixed, drawn, asked.tied)]
        )
    except UnreadableError:
        if further or not reader.guessed:
            raise
        return _read(asked, drawn, dtypes, name, stated, missing, further=True)
    hold_far(replace(op, square=asked.tied), held(asked), extents[0], agreement.positive)
    if agreement.specials and asked.values == ANY:
        raise UnreadableError(f"where {agreement.specials} goes in it returns something else than the formula")
    said = _said(asked, op, reader, agreement)
    said += f"; {' and '.join(transforms)} held to magnitudes of whole rows, as a transform" if transforms else ""
    if open_ones := [each for each in floats if each in whole or is_integer(each, anywhere=True)]:
        names = " and ".join(open_ones)
        said += f"; {names} drawn as floats: give example_inputs if it is of integers"
    gates = gates_of(op)
    inputs = tuple(_drawn(asked, op, each, agreement, gates) for each in op.inputs)
    return Derived(
        replace(op, inputs=inputs, least=agreement.least, summary=said, square=asked.square),
        shown,
        said,
        asked.left_out,
        asked.called,
        asked.others,
        agreement,
        shortens(asked, specs_of(asked, dims, _floats(dtypes, "float64"), 0)),
        frozenset(names[at] for at in widens(asked, specs_of(asked, dims, _floats(dtypes, "bfloat16"), 0))),
        asked.call,
        asked.library,
        held(asked),
    )


def _recorded(asked: AskedReference, dims: Mapping[str, Dim], dtypes: Mapping[str, str]) -> Recording:
    return recorded(asked, [specs_of(asked, dims, dtypes, which) for which in (0, 1)])


def _kinds(recording: Recording) -> Sequence[tuple[str, Sequence[int]]]:
    """Return, for each step, its operation and the ranks of its results."""
    return [(step.op, [*map(len, step.shapes)]) for step in recording.steps]


def _further(
    asked: AskedReference, drawn: Drawn, dtypes: Mapping[str, str], dims: Mapping[str, Dim], recording: Recording
) -> tuple[Calls, Mapping[tuple[float, float], Sequence[float]]]:
    """Return, by free dimension, its extents in all calls, and for each pair of numbers its values in all calls."""
    free = [name for name, dim in dims.items() if dim.sizes[0] != dim.sizes[1] and name not in asked.counts]
    found, others = {name: [*dims[name].sizes] for name in free}, list[Recording]()
    for turn in range(min(TURNS, len(free) + _MORE)):
        with suppress(UnreadableError):
            turned = declared(asked, drawn, turn)
            again = _recorded(asked, turned, dtypes)
            if _kinds(again) == _kinds(recording):
                others.append(again)
                for name in free:
                    found[name] += turned[name].sizes
    return found, recording.beside(others)


def _floats(dtypes: Mapping[str, str], own: str) -> Mapping[str, str]:
    return {name: own if "float" in dtype else dtype for name, dtype in dtypes.items()}


def _drawn(asked: AskedReference, op: Op, operand: Operand, agreement: Agreement, gates: Mapping[str, str]) -> Operand:
    """Return an input with the menu of its values: the caller's, or one for which outputs are finite."""
    if operand.integers:
        return operand
    found = asked.values if isinstance(asked.values, str) else asked.values.get(operand.name, FINITE)
    if found == FINITE and operand.name in agreement.positive:
        return replace(operand, values="not_negative" if operand.name in agreement.zero else "positive")
    if found == FINITE and operand.name in gates:
        return replace(operand, values=gates[operand.name])
    one = len(operand.axes) == 1 and operand.name != op.main and not isinstance(asked.values, Mapping)
    return replace(operand, values={FINITE: "finite_factor", ANY: "factor"}.get(found, found) if one else found)


def _said(asked: AskedReference, op: Op, reader: Reader, agreement: Agreement) -> str:
    inputs = [op.operand(name) for name in asked.dims]
    shapes = [", ".join(f"{each.name}[{', '.join(each.axes)}]" for each in some) for some in (inputs, op.outputs)]
    count = counted(reader.operations, "operation")
    same = f"same value as the reference in float64 at {agreement.sets} sets of extents"
    where = f", where {said_of(asked.counts)}" if asked.counts else ""
    where += f", {' = '.join(dict.fromkeys(chain(*asked.square)))} as given" if asked.square else ""
    parts = [f"{titled(asked.reference)}: {shapes[0]} -> {shapes[1]}{where}, {count}, {same}"]
    if agreement.positive and asked.values != ANY:
        above = [each for each in agreement.positive if each not in agreement.zero]
        some = (above, "positive: else there is no number"), (agreement.zero, "without negative numbers: they give NaN")
        parts += [f"{' and '.join(names)} drawn {how}" for names, how in some if names]
    for dim, parts_of in rounded_of(op.made).items():
        own = next(each for each in "hdknm" if each not in op.named)
        rest = f"{dim} // {parts_of} leaves a rest of some {dim}"
        parts.append(f"{rest}: write {parts_of}{own} for {dim} in shapes if no kernel need take these")
    for name, number in reader.unnamed.items():
        if name not in reader.missing:
            parts.append(f"{name} never {number}: name ignore_index={number} in the reference if kernels must know it")
    if agreement.least:
        fewer = " and ".join(f"{dims.replace(' ', ' * ')} < {size}" for dims, size in agreement.least.items())
        parts.append(f"{fewer} left out: the reference raises there, or returns another shape")
    if loose := _made_of_places(op):
        parts.append(f"{' and '.join(loose)} not judged where places may be others: made of them by arithmetic")
    if agreement.unordered:
        parts.append("the place of a NaN in an order is not judged: contracts and libraries differ")
    if agreement.specials:
        parts.append(f"of an input with {agreement.specials} the reference itself returns something else")
    return "; ".join(parts)


def _made_of_places(op: Op) -> Sequence[str]:
    """Return the names of the integer outputs that are calculated from places but are no places themselves."""
    graph = trace(op.formula, {each.name: each.axes for each in op.inputs})
    places = {name: any(each.kind == "place" for each in ordered([node])) for name, node in graph.outputs.items()}
    return [
        each.name
        for each in op.outputs
        if each.integers and places[each.name] and graph.outputs[each.name].kind != "place"
    ]


def _plain(reader: Reader, names: Sequence[str], outputs: Sequence[Value]) -> Mapping[str, str]:
    """Return names for dimensions of outputs that are parts or copies of others: the output and the number of its axis,
    as `y_axis1`, for those whose own names say nothing to a reader."""
    named, taken = dict[str, str](), {dim.name for dim in reader.sizes}
    for name, value in zip(names, outputs, strict=True):
        for at, (dim,) in enumerate(value.axes):
            if dim.name in reader.sizes.made and _OPAQUE.search(dim.name) and f"{name}_axis{at}" not in taken:
                named.setdefault(dim.name, f"{name}_axis{at}")
    return named


def _of_dims(reader: Reader, value: Value) -> Value:
    """Return an output whose axes have one dimension each. Raises UnreadableError for one that depends on no input."""
    for at in range(value.rank):
        if len(value.axes[at]) != 1:
            value = kept(reader, value, at) or single(reader, value, at)[0]
    if any(dim.sizes == (0, 0) for axis in value.axes for dim in axis):
        raise UnreadableError(NO_ELEMENTS)
    if value.expression is not None and not any(isinstance(each, ast.Name) for each in ast.walk(value.expression)):
        if not value.rank:
            raise UnreadableError(f"returns {ast.unparse(value.expression)}, which no input has to do with")
        for dim in (dim for axis in value.axes for dim in axis):
            value = spread(reader, value, dim)
    return value


def output_names(asked: AskedReference, keys: Sequence[str], count: int) -> Sequence[str]:
    """Return the names of outputs: the reference's own names, unless a tensor has them; else y, out or result."""
    known = keys or returned_names(asked.reference)
    known = known if len(known) == count else [""] * count
    found = list[str]()
    for at, each in enumerate(known):
        number = str(at) if count > 1 else ""
        names = (identifier(each, f"y{number}"), f"y{number}", f"out{number}", f"result{number}")
        found.append(next(name for name in names if name not in {*asked.dims, *found}))
    return found


def _inputs(asked: AskedReference, dtypes: Mapping[str, str], reader: Reader) -> tuple[Operand, ...]:
    """Return the inputs, the float tensor with the most dimensions first, since the shapes of a case follow from it."""
    found = list[Operand]()
    for name, some in asked.dims.items():
        dims, dtype = " ".join(some), dtypes[name]
        if dtype == "bool":
            found.append(Operand(name, dims, dtype="bool", values=FLAGS))
        elif dtype in CODED and name not in reader.indices:
            found.append(Operand(name, dims, dtype=dtype, values=CODES))
        elif "int" in dtype:
            index = reader.indices.get(name) or _any_index(asked, dtypes, reader, name)
            found.append(Operand(name, dims, dtype=dtype, index=index, missing=reader.missing.get(name)))
        else:
            found.append(Operand(name, dims))
    return tuple(sorted(found, key=lambda each: (bool(each.integers), -len(each.axes))))


def _any_index(asked: AskedReference, dtypes: Mapping[str, str], reader: Reader, name: str) -> str:
    """Return a dimension along which the values of an integer input may be places, if they are only compared."""
    floats = [dims for each, dims in asked.dims.items() if "float" in dtypes[each]]
    others = [dim for dim in max(floats, key=len, default=()) if dim not in (*asked.dims[name], OUTER)]
    if (name in reader.calculated and not is_integer(name, anywhere=True)) or not others:
        does = f"{reader.calculated[name]} calculates with {name!r}" if name in reader.calculated else name
        raise UnreadableError(
            f"{does}, which is of {dtypes[name]} and says no places: of integers only {' and '.join(CODED)} are numbers"
            " in formulas"
        )
    return others[-1]
