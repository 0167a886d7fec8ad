"""What a solution is judged by: a function of tensors, as the formats of others say it. Its code is run here."""

from __future__ import annotations

import inspect
import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from fuzz.uses.check.replay_cases import Own
from fuzz.uses.judge.modes import AS_CONSTRUCTED, Mode, modes_of
from fuzz.uses.judge.numbers import LAST, extents_in, read_by, with_numbers
from fuzz.uses.judge.source import (
    ProblemError,
    chosen_function,
    definitions,
    executed,
    identifier,
    identifiers,
    signed,
    text_of,
)  # fmt: skip
from fuzz.uses.judge.words import REFERENCES, files_in
from fuzz.uses.reference import function_at
from oracles.declared import MOST
from oracles.reference.asked import defaults_of

SEED = 0
"""Modules are constructed from it."""
MODULE, KERNEL = "ModelNew", "kernel_function"
"""The names of solutions of a `Model`: a class, or a function."""

_OUTPUTS = 8
"""Where there is no room for so many outputs beside the inputs and weights of a module, these are not given."""
_MOST_OF_WEIGHTS = 1 << 22
"""A module with a larger tensor among its weights keeps those of its construction: each case would hold others."""
_WEIGHTS = (
    "no weights but those of one seed, from which both modules are constructed, as KernelBench does: a case has no "
    f"more than {MOST} tensors, nor a weight of more than {_MOST_OF_WEIGHTS:,} elements"
)


@dataclass(frozen=True)
class Problem:
    """A function that says what a solution should compute."""

    name: str
    reference: Callable[..., Any]
    """It takes tensors by their names."""
    shapes: Mapping[str, str] | None = None
    """The dimensions of each, where they are said or follow from examples."""
    dtypes: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, int] = field(default_factory=dict)
    """The extents that cannot be others."""
    module: Module | None = None
    data: Data | None = None
    returns: Sequence[str] = ()
    """The dtypes of its outputs, where they are said."""
    arguments: Sequence[str] = ()
    """How a solution is called, where it takes more than tensors: an expression of what is given in each place, with
    {} for that where it is one of the tensors, which come in their order."""
    examples: tuple[Mapping[str, int], ...] = ()
    """The extents of dimensions in the inputs that come with it."""
    tier: int = 0
    """Which numbers it has: 0 for the larger ones of those that it could have, 1 for the smaller ones, LAST for what is
    read where none of these is."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """What is said of arguments that are no tensors."""
    draw: Callable[[int], Mapping[str, Any]] | None = None
    """Draws the inputs that come with it, of another seed each."""
    own: Own | None = None
    """Where it is judged by the inputs that come with it alone: what draws them."""
    changed: str = ""
    """What is smaller in those, since they would take too long."""
    kept: str = ""
    """Which extents do not vary, and why; "" where nothing but weights keeps any."""

    @property
    def in_other_mode(self) -> Problem | None:
        """The same in the other mode, where that makes a difference."""
        own = self.module
        if own is None or own.other is None or own.elsewhere is None:
            return None
        return replace(self, reference=own.elsewhere, module=replace(own, mode=own.other, other=None))

    @property
    def modes(self) -> tuple[str, str]:
        """The mode in which a module is judged, and the other one where that makes a difference; '' of a function."""
        own = self.module
        return ("", "") if own is None else (own.mode.text, own.other.text if own.other is not None else "")

    @property
    def never(self) -> tuple[str, ...]:
        """In which ways a module is never called."""
        if self.module is None:
            return ()
        mode = "evaluation mode" if self.module.mode.training else "training mode"
        return (mode, "autograd") if self.module.other is None else ("autograd",)

    @property
    def remarks(self) -> Sequence[str]:
        """What is not judged, and why."""
        own = self.module
        if own is None:
            return [self.kept] if self.kept else []
        tied = ", ".join(f"any {dim} but {size}" for dim, size in own.tied.items())
        tied = f"not exercised, as get_inputs() and get_init_inputs() have it so: {tied}" if tied else ""
        return [*filter(None, (self.kept, _WEIGHTS if own.one_seed else "", tied)), *own.mode.remarks]

    @property
    def others(self) -> Mapping[str, Any]:
        """What arguments are that are no tensors, or may be left out, by their names."""
        return {**defaults_of(self.reference), **self.numbers}


@dataclass(frozen=True)
class Data:
    """A problem whose solution has one parameter, `data`."""

    words: str
    """That, as an expression of the tensors."""
    files: Mapping[str, str]
    """The modules that come with it, which solutions import."""


@dataclass(frozen=True)
class Module:
    """A problem whose solution is a module of torch."""

    made_of: tuple[Any, ...]
    """The arguments that it is made with."""
    inputs: tuple[str, ...]
    """The tensors that it is called with, in their order."""
    weights: Mapping[str, str]
    """The tensors that it has, by their names in the op, with those in its state."""
    constants: Mapping[str, Any]
    """What it is called with that are no tensors."""
    mode: Mode = AS_CONSTRUCTED
    other: Mode | None = None
    """The other mode, where the reference returns something else there."""
    elsewhere: Callable[..., Any] | None = None
    """The reference in that."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """The arguments that it is made with, by their names."""
    one_seed: bool = False
    """Whether a solution keeps the weights that it has after construction, from the seed that those of `Model` are."""
    tied: Mapping[str, int] = field(default_factory=dict)
    """The extents of inputs that it is made with, such as a number of features, or that are 1: they do not vary."""


class UnreadProblemError(ProblemError):
    """A problem whose function has no formula. It may be replayed."""

    def __init__(self, message: str, problem: Problem) -> None:
        super().__init__(message)
        self.problem = problem


def problems_of(words: str, solutions: Sequence[str] = ()) -> Iterator[Problem]:
    """Return what may be the problem in a file, the most general first: a function, which `FILE:NAME` names where the
    file has several; `Model`, `get_inputs` and `get_init_inputs`, as KernelBench has them; a definition in JSON, as
    flashinfer-bench has it; or `task.yml`, as GPU MODE has it. Raises ProblemError."""
    path, _, name = words.partition(":")
    if Path(path).is_dir() and (Path(path) / "task.yml").is_file():
        path = str(Path(path) / "task.yml")
    if Path(path).suffix in (".yml", ".yaml"):
        from fuzz.uses.judge.task import problem_of

        yield problem_of(Path(path))
        return
    text = text_of(Path(path))
    if Path(path).suffix == ".json":
        yield _of_definition(Path(path), text)
        return
    defined = definitions(Path(path), text)
    if {"Model", "get_inputs"} <= {*defined}:
        yield from _of_modules(Path(path), text, [*map(_source, files_in(tuple(solutions)))])
        return
    chosen = chosen_function(path, defined, name, REFERENCES)
    yield Problem(chosen, function_at(f"{path}:{chosen}"))


def _source(solution: str) -> str:
    """The text of a solution where it may have a module; "" of others."""
    return "" if solution.partition(":")[0].endswith(".json") else text_of(Path(solution.partition(":")[0]))


_SMALL = 5, 8
"""Extents like those that a reference is read with: one that is a multiple of nothing, and one that is of much."""


def _of_modules(path: Path, text: str, solutions: Sequence[str]) -> Iterator[Problem]:
    """With small numbers in the place of large ones, but for those that the module or a solution reads by itself, as
    far as it can be made of those: another one for each name, or else another one for each number; the same with
    smaller ones; then with a part of each, or those that there are; then with extents that it takes no small ones of as
    they are, and at last with all as they are but for the first one, a batch."""
    refusal: BaseException | None = None
    made: Sequence[Problem] = ()
    read = read_by(text, {"Model"}.union(*(read_by(each, (MODULE, KERNEL)) for each in solutions)))
    for tier, numbers in with_numbers(text, read):
        if tier == LAST and made and made[0].tier == LAST:
            break  # of the largest part that makes one
        try:
            module = executed(path, text, numbers)
            made = [replace(each, tier=tier) for each in of_module(path, module, extents_in(module, read))]
        except (Exception, SystemExit) as error:  # whatever the problem raises
            refusal = refusal or error
        else:
            yield from made
    if not made:
        raise ProblemError(f"{path}: {type(refusal).__name__}: {refusal}") from refusal
    problem, shapes = made[0], made[0].shapes or {}
    if refused := _refused(problem):
        yield _keeping(problem, refused, "Model refuses others")
    inputs = [shapes.get(name, "").split() for name in (problem.module.inputs if problem.module is not None else ())]
    batch = next((dims[0] for dims in inputs if dims), None)
    if batch is not None and batch not in problem.fixed:
        yield _keeping(problem, [dim for dim in problem.examples[0] if dim != batch], "it is not read with others")


def _keeping(problem: Problem, dims: Collection[str], why: str) -> Problem:
    """The same with the extents of some dimensions as they are in the inputs that come with it."""
    own = problem.examples[0]
    kept = {dim: own[dim] for dim in dims}
    said = f"kept as get_inputs() has them, as {why}: {', '.join(f'{dim} = {size}' for dim, size in kept.items())}"
    rest = {dim: size for dim, size in own.items() if dim not in kept}
    return replace(problem, fixed={**problem.fixed, **kept}, examples=(rest,), kept=said if kept else "")


def _refused(problem: Problem) -> Sequence[str]:
    """The dimensions of which a module takes no small extent, while all others are as they come with it."""
    import torch

    found, shapes = list[str](), problem.shapes or {}
    extents = {**problem.fixed, **problem.examples[0]}

    def takes(dim: str, size: int) -> bool:
        sizes = {**extents, dim: size}
        tensors = {
            name: torch.zeros([sizes[each] for each in dims.split()], dtype=getattr(torch, problem.dtypes[name]))
            for name, dims in shapes.items()
        }  # fmt: skip
        try:
            with torch.no_grad():
                problem.reference(**tensors)
        except Exception:  # whatever it raises
            return False
        return True

    for dim in problem.examples[0]:
        if taken := next((size for size in _SMALL if size != extents[dim] and takes(dim, size)), None):
            extents[dim] = taken  # so that the calls for others are short
        else:
            found.append(dim)
    return found


def of_module(path: Path, module: ModuleType, kept: Collection[int] = ()) -> Sequence[Problem]:
    """The problem, by each of the ways to name dimensions. Extents that are kept do not vary."""
    import torch

    torch.manual_seed(SEED)
    made_of = tuple(module.get_init_inputs()) if hasattr(module, "get_init_inputs") else ()
    if len(made_of) == 2 and isinstance(made_of[0], (list, tuple)) and isinstance(made_of[1], dict):
        made_of = tuple(made_of[0]) if not made_of[1] else made_of
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
    inputs, found = tuple(arguments), list[Problem]()
    named = dict(zip(inspect.signature(module.Model).parameters, made_of, strict=False))
    for naming in _NAMINGS:
        shapes, sizes = _dimensions({name: tuple(each.shape) for name, each in tensors.items()}, naming)
        fixed = {dim: sizes[dim] for name in weights for dim in shapes[name].split()}
        fixed |= {dim: size for dim, size in sizes.items() if size in kept}
        numbers = _numbers(made_of) - {*fixed.values()} | {1}  # those of weights are told by these
        tied = {dim: size for dim, size in sizes.items() if dim not in fixed and size in numbers}
        tied = {} if one_seed else tied
        fixed |= tied
        made = Module(made_of, inputs, weights, constants, mode, other, elsewhere, named, one_seed, tied)
        examples = ({dim: size for dim, size in sizes.items() if dim not in fixed},)
        if all(shapes != each.shapes for each in found):
            found.append(
                Problem(identifier(path.stem), reference, shapes, dtypes, fixed, made, examples=examples,
                        draw=partial(_inputs_of, module, inputs))
            )  # fmt: skip
    return found


def has_too_many(inputs: int, weights: Sequence[tuple[int, ...]]) -> bool:
    """Return whether a case has no room for such weights."""
    return inputs + len(weights) + _OUTPUTS > MOST or max(map(math.prod, weights), default=0) > _MOST_OF_WEIGHTS


def _numbers(made_of: Sequence[Any]) -> set[int]:
    """The whole numbers among the arguments of a module."""
    parts = (part for each in made_of for part in (each if isinstance(each, (tuple, list)) else [each]))
    return {part for part in parts if type(part) is int}


def _inputs_of(module: ModuleType, names: Sequence[str], seed: int) -> Mapping[str, Any]:
    import torch

    torch.manual_seed(seed)
    return dict(zip(names, module.get_inputs(), strict=False))


def _called(
    model: Any, names: list[str], weights: Mapping[str, str], constants: Mapping[str, Any], changed: Collection[str],
    **tensors: Any,
) -> Any:  # fmt: skip
    from torch.func import functional_call

    given = {**constants, **tensors}
    state = {own: tensors[name] for name, own in weights.items()}
    dtype = next((each.dtype for each in tensors.values() if each.is_floating_point()), None)
    if not weights and dtype is not None:  # its weights are not among the arguments
        kept = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        state = {name: each.to(dtype) for name, each in kept.items() if each.is_floating_point()}
    state |= {name: state.get(name, each).clone() for name, each in model.named_buffers() if name in changed}
    return functional_call(model, state, tuple(given[name] for name in names))


Naming = Literal["first", "last", "chained"]
_NAMINGS: Sequence[Naming] = "first", "last", "chained"
"""What axes of several tensors are one where a tensor has several of one extent: the first ones of each, the last ones,
or the last one of a tensor and the first one of the next, as of matrices that are multiplied."""


def _dimensions(
    shapes: Mapping[str, tuple[int, ...]], naming: Naming = "first"
) -> tuple[Mapping[str, str], Mapping[str, int]]:
    """Names of dimensions: axes of one extent are one, but for those of one tensor."""
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


_FLOATS = "float32", "float64", "float16", "bfloat16"
_KNOWN = (*_FLOATS, "float8_e4m3fn", "float8_e5m2", "float4_e2m1", "int64", "int32", "int16", "int8", "uint8", "bool")
"""What a definition says of a dtype; whatever else stands there is what the function takes."""


def _of_definition(path: Path, text: str) -> Problem:
    try:
        said = json.loads(text)
        axes, inputs = said["axes"], said["inputs"]
        fixed = {str(axis).lower(): int(each["value"]) for axis, each in axes.items() if each.get("type") == "const"}
        dims = {name: [*map(str, each["shape"] or ())] for name, each in inputs.items()}
        dtypes = {name: str(each.get("dtype")) for name, each in inputs.items()}
        scalars = {name for name, each in inputs.items() if each["shape"] is None}
        returns = [str(each.get("dtype")) for each in said.get("outputs", {}).values()]
        name, source = str(said["name"]), str(said["reference"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ProblemError(f"{path}: it is no definition with name, axes, inputs and reference: {error!r}") from error
    run = getattr(executed(path, source), "run", None)
    if run is None:
        raise ProblemError(f"{path}: its reference has no function run")
    # It is called by places, whatever its parameters are called.
    own = [*inspect.signature(run).parameters]
    called = dict(zip(inputs, own, strict=False)) if len(own) >= len(inputs) else {}
    usual = {
        each: default for each in scalars
        if dtypes[each] not in _FLOATS and isinstance(default := defaults_of(run).get(called.get(each, each)), int)
    }  # fmt: skip
    numbers = {each for some in dims.values() for each in some if each.isdigit()}
    fixed |= {f"n{each}": int(each) for each in numbers}
    shapes = {
        called.get(each, each): " ".join(f"n{dim}" if dim in numbers else dim for dim in some)
        for each, some in dims.items() if each not in usual
    }  # fmt: skip
    arguments = [repr(usual[each]) if each in usual else "{}.item()" if each in scalars else "{}" for each in inputs]
    run.__name__ = identifier(name)
    return Problem(
        identifier(name), run, shapes,
        {called.get(each, each): dtype for each, dtype in dtypes.items() if each not in usual and dtype in _KNOWN},
        fixed, returns=returns, arguments=arguments if scalars else (),
    )  # fmt: skip
