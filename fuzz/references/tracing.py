"""One call of a reference as a graph of torch's own operations, none of which writes in place. torch's `make_fx` makes
the same graphs, but imports torch's compiler, which takes longer than most checks."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import getitem
from types import SimpleNamespace
from typing import Any

from fuzz.references.plainer import plainer

RETURNS_NONE = "it returns None: end it with `return` and what it calculates"


class ValueDecidesError(Exception):
    """The error of a reference that branches on a value calculated from its arguments."""


@dataclass(frozen=True)
class SourceLine:
    """A line of the user's code that was being executed."""

    file: str
    line: int
    keywords: frozenset[str] = frozenset()
    """The names of keyword arguments in all calls of the line's function."""

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)} line {self.line}"  # noqa: PTH119 (a file may be called <stdin>)


@dataclass(frozen=True)
class Traced:
    """A graph, and by name the tensors in it that no operation made."""

    graph: Any
    held: Mapping[str, Any]


def traced(function: Callable[..., Sequence[Any]], tensors: Sequence[Any], known: Container[str]) -> Traced:
    """Return the graph of a function of tensors. Operations for gradients that are not `known` are replaced by torch's
    decompositions. Raises what the function raises, and ValueDecidesError."""
    import torch
    from torch.fx.node import map_arg

    # Autograd is traced first, since functionalisation refuses `requires_grad_`.
    plain, line = _Tracer(), _Tracer({**_backward_by_parts(known), **plainer()})

    def again(*tensors: Any) -> Any:
        given, values = iter(tensors), dict[Any, Any]()
        for node in plain.graph.nodes:
            if node.op == "output":
                return map_arg(node.args[0], values.__getitem__)
            if node.op == "call_function":
                line.at = node.meta["at"]
                args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
                values[node] = node.target(*args, **kwargs)
            else:
                values[node] = next(given) if node.op == "placeholder" else plain.held[node.target]
        raise AssertionError("a graph ends in its output")

    with torch.enable_grad():
        plain.trace(function, tensors)
        line.trace(torch.func.functionalize(again, remove="mutations"), tensors)
    line.graph.eliminate_dead_code()
    return Traced(line.graph, line.held)


def own_folders() -> tuple[str, ...]:
    """Return the folders whose code belongs to no reference: torch's, NumPy's, JAX's and this one."""
    names = "torch", "numpy", "jax", "jaxlib", __name__
    files = (getattr(sys.modules.get(each), "__file__", None) for each in names)
    return tuple(os.path.dirname(each) + os.sep for each in files if each)  # noqa: PTH120


def _backward_by_parts(known: Container[str]) -> Mapping[Any, Callable[..., Any]]:
    """Return torch's decompositions of its operations for gradients, without the `known` ones."""
    from torch._decomp import decomposition_table as parts

    names = {op: op._schema.name.partition("::")[2] for op in parts if hasattr(op, "_schema")}
    return {op: parts[op] for op, name in names.items() if "_backward" in name and name not in known}


@dataclass
class _Tracer:
    """The tracer of one call, which makes its graph."""

    parts: Mapping[Any, Callable[..., Any]] = field(default_factory=dict)
    graph: Any = field(init=False)
    held: dict[str, Any] = field(default_factory=dict)
    at: Sequence[SourceLine] | None = None
    """The lines from which the next operation counts as called; None for the lines that are executing."""
    _nodes: Any = field(init=False)
    """The node of each tensor, by weak reference: autograd copies a gradient if anybody else holds it."""
    _follow: dict[int, Any] = field(default_factory=dict)
    """The storages of values that depend on arguments or on random numbers."""

    def __post_init__(self) -> None:
        from torch.fx import Graph
        from torch.utils.weak import WeakTensorKeyDictionary

        self.graph, self._nodes = Graph(), WeakTensorKeyDictionary()

    def trace(self, function: Callable[..., Sequence[Any]], tensors: Sequence[Any]) -> None:
        """Call a function of these tensors, and record its operations in the graph."""
        self._mode, self._folders = intercepted(self._traced), own_folders()
        for at, tensor in enumerate(tensors):
            node = self.graph.create_node("placeholder", f"arg{at}")
            self._made(node, tensor)
        self._note(tensors)
        with self._mode:
            returned = function(*tensors)
        self.graph.output(self._given(returned))

    def _traced(self, function: Any, args: Any, kwargs: Any) -> Any:
        import torch

        if function in self.parts:
            with self._mode:
                return self.parts[function](*args, **kwargs)
        if function.has_kernel_for_dispatch_key("CompositeImplicitAutograd") and not (
            function.has_kernel_for_dispatch_key("CPU")
        ):  # autograd would decompose it
            with self._mode:
                return function.decompose(*args, **kwargs)
        follows = any(each.untyped_storage()._cdata in self._follow for each in tensors_in((args, kwargs)))
        if torch.Tag.data_dependent_output in function.tags:
            if follows:
                raise ValueDecidesError(str(function))
            return function(*args, **kwargs)
        if function is torch.ops.aten.lift_fresh.default:  # the constant must not be written to
            function = torch.ops.aten.lift_fresh_copy.default
        node = self.graph.create_node("call_function", function, self._given(args), self._given(kwargs))
        found = function(*args, **kwargs)
        self._made(node, found)
        if follows or torch.Tag.nondeterministic_seeded in function.tags:
            self._note((found, args, kwargs) if function._schema.is_mutable else found)
        return found

    def _note(self, changed: Any) -> None:
        for each in tensors_in(changed):
            storage = each.untyped_storage()
            self._follow[storage._cdata] = storage

    def _made(self, node: Any, found: Any) -> None:
        """Note the results of a node."""
        import torch

        several = isinstance(found, (tuple, list))
        node.meta = {"val": [*map(_shaped, found)] if several else _shaped(found), "at": self._lines()}
        if isinstance(found, torch.Tensor):
            self._nodes[found] = node
        for at, each in enumerate(found if several else ()):
            if isinstance(each, torch.Tensor):
                item = self.graph.create_node("call_function", getitem, (node, at))
                item.meta = {"val": _shaped(each), "at": node.meta["at"]}
                self._nodes[each] = item

    def _given(self, value: Any) -> Any:
        """Return an argument with tensors replaced by nodes."""
        import torch

        if isinstance(value, torch.Tensor):
            if value not in self._nodes:
                name = f"constant{len(self.held)}"
                self.held[name] = value
                node = self.graph.create_node("get_attr", name)
                node.meta = {"val": _shaped(value), "at": self._lines()}
                self._nodes[value] = node
            return self._nodes[value]
        if isinstance(value, Mapping):
            return {name: self._given(each) for name, each in value.items()}
        return type(value)(map(self._given, value)) if isinstance(value, (tuple, list)) else value

    def _lines(self) -> Sequence[SourceLine]:
        if self.at is not None:
            return self.at
        frame, lines = sys._getframe(1), list[SourceLine]()
        while frame is not None and frame.f_code is not _Tracer.trace.__code__:
            if not frame.f_code.co_filename.startswith(self._folders):
                named = (each for each in frame.f_code.co_consts if isinstance(each, tuple))
                keywords = frozenset(each for names in named for each in names if isinstance(each, str))
                lines.append(SourceLine(frame.f_code.co_filename, frame.f_lineno, keywords))
            frame = frame.f_back  # type: ignore[assignment]
        return lines


def _shaped(value: Any) -> Any:
    """Return the shape and dtype of a tensor, which the graph keeps; other values unchanged."""
    return SimpleNamespace(shape=tuple(value.shape), dtype=value.dtype) if hasattr(value, "shape") else value


Handler = Callable[[Any, Any, Any], Any]
"""A function of an operation, its arguments and its keyword arguments that returns the operation's result."""


def intercepted(handler: Handler) -> Any:
    """Return a context in which `handler` is called for each operation. Operations that the handler calls are not
    intercepted, unless it enters the context again."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Interception(TorchDispatchMode):  # type: ignore[misc]
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False  # else torch imports its compiler, which takes seconds

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return handler(function, args, kwargs or {})

    return Interception()


def arguments_of(function: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return the arguments of an operation by name, defaults included."""
    names = [each.name for each in function._schema.arguments]
    defaults = {each.name: each.default_value for each in function._schema.arguments if each.has_default_value()}
    return {**defaults, **dict(zip(names, args, strict=False)), **kwargs}


def tensors_in(value: Any) -> Iterator[Any]:
    """Yield the tensors in arguments or results, also inside lists, tuples and mappings."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        yield from tensors_in([*value.values()])
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors_in(each)
