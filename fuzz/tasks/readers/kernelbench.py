"""Statements in the format of KernelBench: `Model`, `get_inputs` and `get_init_inputs`. Their code is run here."""

from __future__ import annotations

import ast
import inspect
import json
import re
import symtable
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from fuzz.core.base.errors import error_line
from fuzz.core.generate.observed import structural
from fuzz.core.generate.properties import observed
from fuzz.tasks.readers.source import TaskError, executed, identifier, identifiers, on_cpu, signed, text_of
from fuzz.tasks.readers.statement import KERNEL, MODULE, SEED, Mode, Module, Statement, has_too_many, modes_of
from oracles.dtypes import SINGLE

_SMALL = 5, 8
"""Small extents to try: one that is odd, and one that is a multiple of 8."""


def model_text(path: Path) -> str:
    """Return the text of a statement's file. If the file has no `get_init_inputs`, but a configuration as robust-kbench
    has them, the configuration is added: its values at the top, and functions that hand them over. Raises TaskError."""
    text = text_of(path)
    beside = path.with_name(f"{path.stem.replace('func_', 'config_')}.json")
    if "def get_init_inputs" in text or beside.stem == path.stem or not beside.is_file():
        return text
    try:
        said = json.loads(text_of(beside))
        shared, made, given = (said[f"single_{part}_configs"][0] for part in ("shared", "init", "input"))
        values = {**made, **given, **shared}
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise TaskError(f"{beside}: it is no configuration of single_input_configs and the like: {error!r}") from error
    named = "".join(f"{name} = {value!r}\n" for name, value in values.items())
    return f"{text}\n\n{named}{_CONFIGURED.format(values=', '.join(f'{name}={name}' for name in values))}"


_CONFIGURED = """
def _kernelfuzz_given(function):
    import inspect
    values = dict({values})
    known = inspect.signature(function).parameters.values()
    return {{each.name: values.get(each.name, each.default) for each in known if each.name in values
            or each.default is not each.empty}}

def get_init_inputs():
    return [*_kernelfuzz_given(Model).values()]

def get_inputs(_own=get_inputs):
    return _own(**_kernelfuzz_given(_own))
"""


def executed_model(path: Path, text: str, tree: ast.Module | None = None) -> ModuleType:
    """Run a statement's file and return it as a module, whose inputs are on the CPU. Raises TaskError."""
    module = executed(path, text, tree)
    for name in ("get_inputs", "get_init_inputs"):
        if hasattr(module, name):
            setattr(module, name, partial(_here, getattr(module, name)))
    return module


def _here(function: Callable[[], Any]) -> Any:
    with on_cpu():
        return function()


def statements_of(path: Path, text: str, solutions: Sequence[str]) -> Iterator[Statement]:
    """Yield the possible forms of a module's statement, the most general first. Raises TaskError.

    Small numbers replace large ones, except numbers that the module or a solution reads under their name. The forms, as
    far as the module can be constructed with them: a different number for each name; a different one for each number;
    both with smaller numbers; every number divided by 8, 4, 2 or 1, the first that works; only those extents unchanged
    that the module takes no small ones of; and at last all extents unchanged except the first, a batch."""
    refusal: BaseException | None = None
    made: Sequence[Statement] = ()
    read = names_of(text, solutions)
    for tier, numbers in with_numbers(text, read):
        if tier == LAST and made and made[0].tier == LAST:
            break  # one divisor that works is enough
        try:
            module = executed_model(path, text, numbers)
            made = [replace(each, tier=tier) for each in of_module(path, module, extents_in(module, read))]
        except (Exception, SystemExit) as error:  # whatever the file raises
            refusal = refusal or error
        else:
            yield from made
    if refusal is not None and not made:
        said = str(refusal) if isinstance(refusal, TaskError) else f"{path}: {error_line(refusal)}"
        raise TaskError(said) from refusal
    statement, shapes = made[0], made[0].shapes or {}
    if refused := _refused(statement):
        yield _keeping(statement, refused, "Model refuses others")
    own = statement.module
    inputs = [shapes.get(name, "").split() for name in (own.inputs if own is not None else ())]
    batch = next((dims[0] for dims in inputs if dims), None)
    if batch is not None and batch not in statement.fixed:
        yield _keeping(statement, [dim for dim in statement.examples[0] if dim != batch], "it is not read with others")


def names_of(text: str, solutions: Sequence[str]) -> frozenset[str]:
    """Return the names at the top of a text that `Model` or a solution reads by itself."""
    read = read_by(text, {"Model"}.union(*(read_by(each, (MODULE, KERNEL)) for each in solutions)))
    return read & {*re.findall(r"\w+", text)}


def _keeping(statement: Statement, dims: Collection[str], why: str) -> Statement:
    """Return the statement with the extents of some dimensions fixed to those of the inputs that come with it."""
    own = statement.examples[0]
    kept = {dim: own[dim] for dim in dims}
    said = f"kept as get_inputs() has them, as {why}: {', '.join(f'{dim} = {size}' for dim, size in kept.items())}"
    rest = {dim: size for dim, size in own.items() if dim not in kept}
    return replace(statement, fixed={**statement.fixed, **kept}, examples=(rest,), kept=said if kept else "")


def _refused(statement: Statement) -> Sequence[str]:
    """Return the dimensions for which the module takes no small extent, while all others are the statement's."""
    found, extents = list[str](), {**statement.fixed, **statement.examples[0]}
    for dim in statement.examples[0]:
        others = (size for size in _SMALL if size != extents[dim])
        if taken := next((size for size in others if statement.takes({**extents, dim: size})), None):
            extents[dim] = taken  # so that later calls take less time
        else:
            found.append(dim)
    return found


def of_module(path: Path, module: ModuleType, kept: Collection[int] = ()) -> Sequence[Statement]:
    """Return the statement's forms, one for each way to name dimensions. Extents in `kept` do not vary."""
    import torch

    torch.manual_seed(SEED)
    made_of = made_with(module)
    torch.manual_seed(SEED)
    model = module.Model(*made_of)
    given = module.get_inputs()
    own = list(inspect.signature(model.forward).parameters)[: len(given)]
    mode, other = modes_of(model, given)
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    state = {name: tensor for name, tensor in state.items() if tensor.is_floating_point()}
    if one_seed := has_too_many(len(own), [tuple(each.shape) for each in state.values()]):
        state = {}
    names = identifiers([*own, *state])
    arguments = dict(zip(names, given, strict=False))
    weights = dict(zip(names[len(own) :], state, strict=True))
    constants = {name: each for name, each in arguments.items() if not hasattr(each, "shape")}
    tensors = {**{name: each for name, each in arguments.items() if name not in constants},
               **{name: state[each] for name, each in weights.items()}}  # fmt: skip

    def called(mode: Mode) -> Callable[..., Any]:
        torch.manual_seed(SEED)
        own = model if mode.to_set is None else module.Model(*made_of).train(mode.to_set)
        call = partial(_called, own, [*arguments], weights, constants, mode.changed)
        return signed(call, path.stem, [*tensors])

    reference, elsewhere = called(mode), called(other) if other is not None else None
    dtypes = {name: str(each.dtype).removeprefix("torch.") for name, each in tensors.items()}
    inputs, found = tuple(arguments), list[Statement]()
    buffers = _buffers(model, weights)
    named = dict(zip(inspect.signature(module.Model).parameters, made_of, strict=False))
    for naming in NAMINGS:
        shapes, sizes = _dimensions({name: tuple(each.shape) for name, each in tensors.items()}, naming)
        fixed = {dim: sizes[dim] for name in weights for dim in shapes[name].split()}
        fixed |= {dim: size for dim, size in sizes.items() if size in kept}
        numbers = _numbers(made_of) - {*fixed.values()} | {1}  # extents of weights are fixed already
        tied = {dim: size for dim, size in sizes.items() if dim not in fixed and size in numbers}
        tied = {} if one_seed else tied
        fixed |= tied
        made = Module(made_of, inputs, weights, constants, mode, other, elsewhere, named, one_seed, tied)
        examples = ({dim: size for dim, size in sizes.items() if dim not in fixed},)
        if all(shapes != each.shapes for each in found):
            found.append(
                Statement(identifier(path.stem), reference, shapes, dtypes, fixed, made, examples=examples,
                        draw=partial(_inputs_of, module, inputs, buffers), buffers=tuple(buffers))
            )  # fmt: skip
    return found


def made_with(module: ModuleType) -> tuple[Any, ...]:
    """Return the arguments that a model is constructed with. An empty dict of keyword arguments is left out."""
    found = tuple(module.get_init_inputs()) if hasattr(module, "get_init_inputs") else ()
    by_name = len(found) == 2 and isinstance(found[0], (list, tuple)) and isinstance(found[1], dict)
    return tuple(found[0]) if by_name and not found[1] else found


def _numbers(made_of: Sequence[Any]) -> set[int]:
    """Return the whole numbers among the arguments of a module's construction."""
    parts = (part for each in made_of for part in (each if isinstance(each, (tuple, list)) else [each]))
    return {part for part in parts if type(part) is int}


def _buffers(model: Any, weights: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the buffers with a structural property, such as a causal mask, by their names in the problem."""
    own = dict(model.named_buffers())
    found = {name: own[each].double() for name, each in weights.items() if each in own}
    kept = structural({name: observed([each.numpy()], SINGLE.u) for name, each in found.items()})
    return {name: each for name, each in found.items() if name in kept}


def _inputs_of(
    module: ModuleType, names: Sequence[str], buffers: Mapping[str, Any], seed: int
) -> Mapping[str, Any]:  # fmt: skip
    import torch

    torch.manual_seed(seed)
    return {**dict(zip(names, module.get_inputs(), strict=False)), **buffers}


def _called(
    model: Any, names: list[str], weights: Mapping[str, str], constants: Mapping[str, Any], changed: Collection[str],
    **tensors: Any,
) -> Any:  # fmt: skip
    from torch.func import functional_call

    given = {**constants, **tensors}
    state = {own: tensors[name] for name, own in weights.items()}
    dtype = next((each.dtype for each in tensors.values() if each.is_floating_point()), None)
    if not weights and dtype is not None:  # the module keeps its own weights, which are not among the arguments
        kept = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        state = {name: each.to(dtype) for name, each in kept.items() if each.is_floating_point()}
    state |= {name: state.get(name, each).clone() for name, each in model.named_buffers() if name in changed}
    return functional_call(model, state, tuple(given[name] for name in names))


Naming = Literal["first", "last", "chained"]
NAMINGS: Sequence[Naming] = "first", "last", "chained"
"""How axes of several tensors with the same extent are identified if a tensor has several such axes: the first of each
tensor, the last of each, or the last of one and the first of the next, as in a product of matrices."""


def _dimensions(
    shapes: Mapping[str, tuple[int, ...]], naming: Naming = "first"
) -> tuple[Mapping[str, str], Mapping[str, int]]:
    """Return each tensor's dimensions, and their extents. Axes of equal extent share a name, except in one tensor."""
    named, sizes = dict[tuple[int, int], str](), dict[str, int]()
    found, before = dict[str, str](), Counter[int]()
    for name, shape in sorted(shapes.items(), key=lambda each: -len(each[1])):
        dims = []
        for axis, size in enumerate(shape):
            again = (shape[axis + 1 :] if naming == "last" else shape[:axis]).count(size) + before[size]
            dims.append(named.setdefault((size, again), f"d{len(named)}"))
            sizes[dims[-1]] = size
        found[name] = " ".join(dims)
        if naming == "chained":
            before.update({size: count - 1 for size, count in Counter(shape).items()})
    return {name: found[name] for name in shapes}, sizes


_LARGE, _STEPS = 15, ((24, 8), (8, 4))
"""Whole numbers of at least 16 in a statement count as extents of a benchmark. They are replaced by different multiples
of 8 from 24 on, or else of 4 from 8 on. Smaller ones are numbers of heads or groups or sizes of windows, and stay. A
batch becomes no multiple, so that nothing else is as long. Numbers of groups become a divisor of all other numbers."""
_PARTS = 8, 4, 2, 1
"""All large numbers except the batch are divided by the first of these that works, so that equal numbers stay equal."""
_BATCHES = (5, 7, 11, 13)
LAST = 2
"""The tier of forms that are read only if no other form can be read."""


class _Small(ast.NodeTransformer):
    """Replaces large numbers of a benchmark by the results of `smaller`. With `by_name`, each statement has
    replacements of its own, so that equal numbers may become different; else equal numbers stay equal."""

    def __init__(
        self, smaller: Callable[[int], int], taken: Iterable[int], kept: Collection[int], groups: int, *, by_name: bool
    ) -> None:
        self._small = smaller
        self._kept = kept
        self._groups = groups
        self._batches = (size for size in _BATCHES if size not in taken)
        self._by_name = by_name
        self._smaller: dict[int, int] = {}

    def statement(self, node: ast.stmt) -> ast.stmt:
        if self._by_name:
            self._smaller = {}
            if batch := _number_called(node, "batch"):
                self._smaller[batch] = next(self._batches, batch)
            groups = _number_called(node, "group")
            if groups is not None and groups > _LARGE:
                self._smaller[groups] = self._groups
        found: ast.stmt = self.visit(node)
        return found

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        value = node.value
        if not isinstance(value, int) or isinstance(value, bool) or value in self._kept:
            return node
        if value > _LARGE or value in self._smaller:
            if value not in self._smaller:
                self._smaller[value] = self._small(value)
            return ast.copy_location(ast.Constant(self._smaller[value]), node)
        return node


def _next_of(free: Iterator[int], _: int) -> int:
    return next(free)


def _part_of(part: int, size: int) -> int:
    return size // part


def with_smaller_batches(text: str) -> Iterator[tuple[str, int, ast.Module]]:
    """Yield the name of the first batch in a text, its half, quarter and so on, and the text changed to each."""
    size = batch_of(text)
    while size > 1:
        size //= 2
        tree = ast.parse(text)
        own = next(each for each in tree.body if (_number_called(each, "batch") or 0) > 1)
        assert isinstance(own, ast.Assign)
        own.value = ast.copy_location(ast.Constant(size), own.value)
        yield ast.unparse(own.targets[0]), size, tree


def batch_of(text: str) -> int:
    """Return the size of the first batch with several rows in a text; 0 if there is none."""
    return next((size for each in ast.parse(text).body if (size := _number_called(each, "batch") or 0) > 1), 0)


def _number_called(node: ast.stmt, word: str) -> int | None:
    """Return the number that a statement assigns to a name that contains the word; None for other statements."""
    named = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and word in node.targets[0].id
    value = node.value if named and isinstance(node, ast.Assign) else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, int) else None


def with_numbers(text: str, read: Collection[str]) -> Iterator[tuple[int, ast.Module]]:
    """Yield the text with other numbers, each with its tier. Numbers under the names in `read` stay as they are,
    because a solution uses these names for its own numbers."""
    tree = ast.parse(text)
    own = [each for each in tree.body if _defined(each) & {*read}]
    taken, kept = _whole_numbers(tree), frozenset[int]().union(*map(_whole_numbers, own))
    for tier, (first, step) in enumerate(_STEPS):
        for by_name in (True, False):
            free = (size for size in count(first, step) if size not in taken)
            yield tier, _with(text, read, _Small(partial(_next_of, free), taken, kept, step, by_name=by_name))
    for part in _PARTS:
        yield LAST, _with(text, read, _Small(partial(_part_of, part), taken, kept, 1, by_name=True))
    yield LAST, tree


def _whole_numbers(tree: ast.AST) -> frozenset[int]:
    return frozenset(
        node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, int)
    )


def _with(text: str, read: Collection[str], small: _Small) -> ast.Module:
    """Return the text with small numbers in top-level assignments and in functions that make inputs (`get_...`)."""
    tree = ast.parse(text)
    for at, each in enumerate(tree.body):
        is_maker = isinstance(each, ast.FunctionDef) and each.name.startswith("get_")
        if (isinstance(each, (ast.Assign, ast.AnnAssign)) or is_maker) and not _defined(each) & {*read}:
            tree.body[at] = small.statement(each)
    return tree


def read_by(text: str, names: Iterable[str]) -> frozenset[str]:
    """Return the names, and all names at the top of a module that their definitions use, directly or indirectly. A text
    that is not Python has none."""
    try:
        waiting, found = [*ast.parse(text).body], {*names}
    except (SyntaxError, ValueError):  # whoever reads the solution reports the error
        return frozenset()
    while there := [each for each in waiting if _defined(each) & found]:
        waiting = [each for each in waiting if each not in there]
        found.update(*map(_read, there))
    return frozenset(found)


def _defined(node: ast.stmt) -> set[str]:
    """Return the names that a statement at the top of a module defines."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
    return {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}


def _read(node: ast.stmt) -> set[str]:
    """Return the names at the top of a module that a statement reads, at once or when it is called."""
    tables, found = [symtable.symtable(ast.unparse(node), "", "exec")], set[str]()
    while tables:
        table = tables.pop()
        symbols = [each for each in table.get_symbols() if each.is_referenced()]
        found |= {each.get_name() for each in symbols if each.is_global() or table.get_type() == "module"}
        tables += table.get_children()
    return found


def extents_in(module: ModuleType, names: Iterable[str]) -> frozenset[int]:
    """Return the whole numbers in the values of these names at the top of a module."""
    waiting, found = [vars(module).get(name) for name in names], set[int]()
    while waiting:
        value = waiting.pop()
        if isinstance(value, int):
            found.add(value)
        elif isinstance(value, (list, tuple)):
            waiting += value
        elif isinstance(value, Mapping):
            waiting += value.values()
    return frozenset(found)
