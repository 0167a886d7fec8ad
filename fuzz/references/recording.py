"""The recording of a reference as a list of torch's own operations. In the graph of one call extents are only numbers.
So the reference is called twice with different extents, and the graphs are read in lockstep: a number that is equal in
both is a constant."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from traceback import walk_tb
from typing import Any

from fuzz.references.dims import MisnamedError, Pair, UnreadableError
from fuzz.references.iterations import name_of
from fuzz.references.loops import rolled, word
from fuzz.references.tracing import RETURNS_NONE, SourceLine, Traced, ValueDecidesError, own_folders, traced

Reference = Callable[..., Any]
_COUNT_FOLLOWS = "it makes more tensors, or takes more numbers, with other extents: how many follows from them"


@dataclass(frozen=True)
class Use:
    """A tensor among the arguments of a step: the result of an earlier step."""

    step: int
    item: int | None = None
    """The index of the tensor, if the step returned several."""


@dataclass(frozen=True)
class Two:
    """A number that differs between the two calls."""

    first: float
    second: float

    @property
    def pair(self) -> tuple[float, float]:
        """The numbers of both calls."""
        return self.first, self.second


@dataclass(frozen=True)
class Step:
    """One operation of torch, in both calls."""

    op: str
    """The name of the operation, such as "mul"; "input" and "constant" are tensors that no operation made."""
    overload: str
    given: Mapping[str, Any]
    """All arguments by torch's names. Tensors are `Use`s."""
    shapes: Sequence[tuple[Pair, ...]]
    """The shape of each tensor that the operation returns, as pairs of extents in both calls."""
    dtype: str
    """The dtype of the first returned tensor."""
    at: Sequence[SourceLine]
    """The lines from which the operation was called, the innermost first."""


@dataclass(frozen=True)
class Recording:
    """All steps of a reference in order, and the results that are its outputs."""

    steps: Sequence[Step]
    outputs: Sequence[Use]
    names: Sequence[str]
    """The reference's names of the outputs, if it returns a mapping or a named tuple."""

    def beside(self, others: Sequence[Recording]) -> Mapping[tuple[float, float], Sequence[float]]:
        """Return the values in all calls of each pair of numbers or extents in this recording, from further recordings
        with the same steps. A pair whose occurrences differ in further calls is left out."""
        found = dict[tuple[float, float], Sequence[float] | None]()
        for pair, *more in zip(*([*_pairs(each)] for each in (self, *others)), strict=True):
            values = [*pair, *(value for each in more for value in each)]
            found[pair] = values if found.get(pair, values) == values else None
        return {pair: values for pair, values in found.items() if values is not None}


def record(
    reference: Reference, names: Sequence[str], calls: Sequence[Mapping[str, Any]], known: Container[str] = ()
) -> Recording:
    """Return the recording of a reference for the tensors of two calls. Operations for gradients that are not `known`
    are replaced by torch's decompositions. Raises UnreadableError."""
    (first, keys), (second, _) = (_traced(reference, names, call, known) for call in calls)
    nodes = [_nodes(graph.graph.nodes) for graph in (first, second)]
    if [*map(word, nodes[0])] != [*map(word, nodes[1])]:
        refused = f"with other extents it does something else: {_difference(nodes)}"
        iterations = [rolled(graph.graph) for graph in (first, second)]
        nodes = [_nodes(each) for each in iterations if each is not None]
        if len(nodes) < len(iterations) or [*map(word, nodes[0])] != [*map(word, nodes[1])]:
            raise UnreadableError(
                f"{refused}. A loop is read if its iterations take one place after the other, from "
                "either end, and no two of what they carry are made of each other"
            )
    numbered = [{node: at for at, node in enumerate(some)} for some in nodes]
    pairs = [*zip(*nodes, strict=True)]
    steps = [_step(a, b, numbered, (first, second)) for a, b in pairs if a.op != "output"]
    returned = _merged(pairs[-1][0].args[0], pairs[-1][1].args[0], numbered)
    return Recording(steps, returned, keys)


def shortens(reference: Reference, names: Sequence[str], call: Mapping[str, Any]) -> bool:
    """Whether a reference of f64 tensors casts f64 to f32; False if it does not accept f64 tensors."""
    import torch

    try:
        found, _ = _traced(reference, names, call, ())
    except UnreadableError:
        return False
    casts = [node for node in found.graph.nodes if name_of(node) == "_to_copy"]
    cast = torch.float64, torch.float32
    return any((node.args[0].meta["val"].dtype, node.meta["val"].dtype) == cast for node in casts)


def widens(reference: Reference, names: Sequence[str], call: Mapping[str, Any]) -> Sequence[int]:
    """Return the numbers of the outputs that a reference of tensors of 16 bits returns in f32; () if it takes none."""
    import torch

    try:
        found, _ = _traced(reference, names, call, ())
    except UnreadableError:
        return ()
    returned = found.graph.output_node().args[0]
    metas = [getattr(node, "meta", {}).get("val") for node in returned]
    return [at for at, each in enumerate(metas) if getattr(each, "dtype", None) == torch.float32]


def _traced(
    reference: Reference, names: Sequence[str], call: Mapping[str, Any], known: Container[str]
) -> tuple[Traced, Sequence[str]]:
    import torch

    keys: list[str] = []

    def flat(*tensors: Any) -> tuple[Any, ...]:
        returned = reference(**dict(zip(names, tensors, strict=True)))
        if isinstance(returned, Mapping):
            keys[:] = map(str, returned)
            returned = tuple(returned.values())
        elif isinstance(returned, tuple):  # perhaps a named tuple, or torch's
            keys[:] = getattr(returned, "_fields", getattr(returned, "__match_args__", ()))
        found = tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)
        if returned is None:
            raise MisnamedError(RETURNS_NONE)
        if wrong := [each for each in found if not isinstance(each, torch.Tensor)]:
            raise UnreadableError(
                f"it returns {type(wrong[0]).__name__}: a reference calculates with torch, and returns tensors"
            )
        return found

    try:
        return traced(flat, [call[name] for name in names], known), keys
    except (UnreadableError, ImportError):
        raise
    except Exception as error:  # the reference's own, or torch's about a branch on values
        raise UnreadableError(raised(error)) from error


def fault(error: Exception, reference: Reference | None = None) -> str:
    """Return one line of text about a bug of this program, with its place, and with the first line of a `reference`."""
    frames = [*walk_tb(error.__traceback__)]
    line = SourceLine(frames[-1][0].f_code.co_filename, frames[-1][1])
    code = getattr(inspect.unwrap(getattr(reference, "forward", reference)), "__code__", None) if reference else None
    first = f"it{f' ({SourceLine(code.co_filename, code.co_firstlineno)})' if code else ''} " if reference else ""
    said = f"{type(error).__name__} ({line}): {' '.join(str(error).split())[:120]}"
    return f"{first}meets a bug of kernelfuzz, which is not yours: {said}"


def raised(error: Exception) -> str:
    """Return one line of text about an error that a reference raised, with the line of the reference."""
    said = " ".join(str(error).split()) or type(error).__name__
    frames = ((frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__))
    lines = [SourceLine(*each) for each in frames if not each[0].startswith(own_folders())]
    where = f" ({lines[-1]})" if lines else ""
    if isinstance(error, ValueDecidesError):
        return f"a value decides what it does, or becomes a number of Python{where}: a formula has neither"
    return f"{type(error).__name__}{where}: {said[:300]}"


def _nodes(nodes: Iterable[Any]) -> Sequence[Any]:
    return [node for node in nodes if not _is_item(node)]


def _is_item(node: Any) -> bool:
    return bool(node.op == "call_function" and getattr(node.target, "__name__", "") == "getitem")


def _difference(nodes: Sequence[Sequence[Any]]) -> str:
    for a, b in zip(*nodes, strict=False):
        if word(a) != word(b):
            one, other = (str(each.target) if each.op == "call_function" else "its end" for each in (a, b))
            return f"{one} or {other}{''.join(f' ({line})' for line in _lines(a)[:1])}"
    return f"{len(nodes[0])} operations or {len(nodes[1])}"


def _lines(node: Any) -> Sequence[SourceLine]:
    return node.meta.get("at") or ()


def _step(a: Any, b: Any, known: Sequence[Mapping[Any, int]], graphs: Sequence[Any]) -> Step:
    if a.op == "placeholder":
        return Step("input", "", {}, *_returned(a, b), ())
    if a.op == "get_attr":
        tensors = [graph.held[node.target] for graph, node in zip(graphs, (a, b), strict=True)]
        numbers = [each.item() if each.ndim == 0 else None for each in tensors]
        value = None if None in numbers else either(*numbers)
        return Step("constant", "", {"value": value}, [()], str(tensors[0].dtype), _lines(a))
    schema = a.target._schema
    given = dict[str, Any]()
    for at, argument in enumerate(schema.arguments):
        default = argument.default_value
        first, second = (
            node.args[at] if at < len(node.args) else node.kwargs.get(argument.name, default) for node in (a, b)
        )
        given[argument.name] = _merged(first, second, known)
    name = a.target._schema.name.partition("::")[2]
    return Step(name, a.target._overloadname, given, *_returned(a, b), _lines(a))


def _returned(a: Any, b: Any) -> tuple[Sequence[tuple[Pair, ...]], str]:
    """Return the shapes of a node's results in both calls, and the dtype of the first result."""
    metas = [each if isinstance(each := node.meta.get("val"), (tuple, list)) else (each,) for node in (a, b)]
    if len(metas[0]) != len(metas[1]):
        raise UnreadableError(_COUNT_FOLLOWS)
    shapes = [
        tuple(zip(m.shape, n.shape, strict=True)) if hasattr(m, "shape") and len(m.shape) == len(n.shape) else ()
        for m, n in zip(*metas, strict=True)
    ]
    return shapes, str(getattr(metas[0][0], "dtype", ""))


def _merged(a: Any, b: Any, known: Sequence[Mapping[Any, int]]) -> Any:
    """Return an argument with its values in both calls merged."""
    if hasattr(a, "op"):
        return Use(known[0][a.args[0]], a.args[1]) if _is_item(a) else Use(known[0][a])
    if isinstance(a, (list, tuple)):
        if not isinstance(b, (list, tuple)) or len(a) != len(b):
            raise UnreadableError(_COUNT_FOLLOWS)
        return [_merged(x, y, known) for x, y in zip(a, b, strict=True)]
    return either(a, b)


def _pairs(recording: Recording) -> Iterator[tuple[float, float]]:
    """Yield all extents and numbers of a recording in order, as pairs of both calls."""
    for step in recording.steps:
        yield from (pair for shape in step.shapes for pair in shape)
        yield from _numbers([*step.given.values()])


def _numbers(given: Any) -> Iterator[tuple[float, float]]:
    if isinstance(given, (list, tuple)):
        for each in given:
            yield from _numbers(each)
    elif isinstance(given, Two):
        yield given.pair
    elif isinstance(given, (int, float)):
        yield given, given


def either(a: Any, b: Any) -> Two | Any:
    """Return a number, or the two that it is in both calls; of others the first."""
    same = a == b or (a != a and b != b)
    if same or not isinstance(a, (int, float)) or not isinstance(b, (int, float)):
        return str(a) if type(a).__module__ == "torch" else a
    return Two(float(a), float(b))
