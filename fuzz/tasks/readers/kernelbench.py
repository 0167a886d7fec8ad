"""Problems as KernelBench has them: `Model`, `get_inputs` and `get_init_inputs`. Their code is run here."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from fuzz.tasks.readers.modes import Mode, modes_of
from fuzz.tasks.readers.numbers import LAST, extents_in, read_by, with_numbers
from fuzz.tasks.readers.problem import KERNEL, MODULE, SEED, Module, Problem
from fuzz.tasks.readers.source import ProblemError, executed, identifier, identifiers, signed
from oracles.declared import MOST

_OUTPUTS = 8
"""Where there is no room for so many outputs beside the inputs and weights of a module, these are not given."""
_SMALL = 5, 8
"""Extents like those that a reference is read with: one that is a multiple of nothing, and one that is of much."""


def problems_of(path: Path, text: str, solutions: Sequence[str]) -> Iterator[Problem]:
    """Return what may be the problem of a module, the most general first. Raises ProblemError.

    Small numbers stand for the large ones, but for those that the module or a solution reads by itself, as far as it
    can be made of those: another one for each name, or else another one for each number; the same with smaller ones;
    then with a part of each, or those that there are; then with extents that it takes no small ones of as they are, and
    at last with all as they are but for the first one, a batch."""
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
    if one_seed := len(own) + len(state) + _OUTPUTS > MOST:
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
        made = Module(made_of, inputs, weights, constants, mode, other, elsewhere, named, one_seed)
        examples = ({dim: size for dim, size in sizes.items() if dim not in fixed},)
        if all(shapes != each.shapes for each in found):
            found.append(
                Problem(identifier(path.stem), reference, shapes, dtypes, fixed, made, examples=examples,
                        draw=partial(_inputs_of, module, inputs))
            )  # fmt: skip
    return found


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
