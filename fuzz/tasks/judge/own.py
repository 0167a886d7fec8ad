"""Judging a task at its own shapes, with the inputs and weights that come with a `Model`. A search replaces large
numbers of the task, so it finds whether a solution works at other shapes, but not whether it works at these."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from fuzz.campaign.search.stopping import Interruption
from fuzz.core.adapters.pack import load
from fuzz.core.base.draw import Draw
from fuzz.core.base.dtypes import from_bits
from fuzz.core.base.errors import UsageError, error_line
from fuzz.core.base.text import printable
from fuzz.core.generate.realise import realise
from fuzz.references.dims import UnreadableError
from fuzz.references.gpu import GPU, freed, has_gpu
from fuzz.references.replay.recipe import ReplayRecipe, given
from fuzz.references.tracing import tensors_in
from fuzz.references.units import floats_as
from fuzz.tasks.judge.asked import Asked
from fuzz.tasks.judge.bugs import shapes_text
from fuzz.tasks.judge.replay import replay_of
from fuzz.tasks.judge.ruling import OwnShapes, SolutionRuling, by_own
from fuzz.tasks.readers.kernelbench import executed_model, made_with, model_text, of_module, with_smaller_batches
from fuzz.tasks.readers.solution import Solution, Solutions
from fuzz.tasks.readers.source import TaskError
from fuzz.tasks.readers.statement import SEED, Module, Statement, has_too_many
from oracles.dtypes import SINGLE

CASES = 5
"""The number of cases at a task's own shapes besides a search: as many as KernelBench tries."""
_MOST_ELEMENTS, _ENOUGH_ELEMENTS = 1 << 22, 1 << 20
"""The most elements of a tensor. A batch is halved until at most the second number are left: a million elements take a
second or two."""
_MOST_OF_ALL = 1 << 21
"""The most elements that the inputs of all cases at a task's own shapes may have together. One case is allowed even if
it has more."""
_ON_GPU = 64
"""How many times as many elements a GPU replays. Measured on an H200: a case of a layer norm of 64 times 2^20 elements
took 32 s, most of which is spent on making, sending and comparing its tensors."""
_SECONDS = 20.0
"""The most seconds for all cases besides a search, if there is no limit of time."""
_CALL_S = 0.25
"""If a call of the reference takes longer, the batch is made smaller: a case of a replay takes as long as `_CALLS`."""
_CALLS = 250
_FILE, _ONE_SEED, _KEPT_MODE, _OTHER_MODE = "own_shapes_", "one_seed_", "kept_mode_", "other_mode_"
_CALLS_MODE = re.compile(r"\.(eval|train)\(")
_KEEPS_MODE = """

import torch as _moded

_moded_train, _moded_init = _moded.nn.Module.train, ModelNew.__init__
_moded.nn.Module.train = lambda self, mode=True: _moded_train(self, {training})
ModelNew.__init__ = lambda self, *given, **named: (_moded_init(self, *given, **named), self.train())[0]
"""
"""Code appended to a solution that keeps it in one mode, whatever mode it sets."""
_IN_OTHER_MODE = 12
"""The most cases in the mode that a module is not judged in first (training or evaluation): a quarter of
`QUICK_REPLAYS`."""
_RANDOM = (
    "in training mode, as constructed, Model draws random numbers, so no result is right or wrong. To judge eval() "
    "alone, write self.eval() at the end of its __init__"
)


def own_statement(against: str, *, one_seed: bool = False, seconds: float = math.inf) -> Statement:
    """Return the problem of a `Model` with only its own inputs and weights; with `one_seed` all cases have the weights
    of one seed, else each draws its own. The batch is made smaller so that a case takes at most that number of seconds.
    Raises TaskError if there is no `Model`, or too large a tensor."""
    path = Path(against.partition(":")[0])
    module, changed = _small_enough(path, model_text(path), min(_CALL_S, seconds / _CALLS))
    try:
        problem = of_module(path, module)[0]
    except (Exception, SystemExit) as error:  # whatever the module raises
        raise TaskError(f"{path}: {error_line(error)}") from error
    assert problem.module is not None
    own = replace(problem.module, one_seed=one_seed or problem.module.one_seed)

    def drawn(seed: int) -> Mapping[str, NDArray[Any]]:
        return floats_as(np.float64, {name: array_of(each) for name, each in drawn_of(module, own, seed).items()})

    fixed = {**problem.fixed, **problem.examples[0]}
    return replace(problem, fixed=fixed, module=own, own=drawn, changed=changed)


def _small_enough(path: Path, text: str, call_s: float) -> tuple[ModuleType, str]:
    """Return the module, with a smaller batch if it is too large or a call takes longer than `call_s`, and the change
    in words. Raises TaskError."""
    module = executed_model(path, text)
    if not hasattr(module, "Model") or not hasattr(module, "get_inputs"):
        raise TaskError(f"{path}: no shapes come with it: it has no Model with get_inputs")
    changed, largest = "", _largest(module)
    for name, size, tree in with_smaller_batches(text):
        if math.prod(largest) <= _ENOUGH_ELEMENTS * _times() and (_call_s(module) or 0.0) <= call_s:
            break
        fewer = executed_model(path, text, tree)
        if size == 1 and _call_s(fewer) is None:  # a norm over the batch refuses a batch of one, for example
            break
        module, changed, largest = fewer, f"{name} = {size}, as more takes too long", _largest(fewer)
    if math.prod(largest) <= (most := _MOST_ELEMENTS * _times()):
        return module, changed
    shape = "x".join(map(str, largest))
    raise TaskError(f"a tensor is {shape}, and one of more than {most:,} takes too long")


def _times() -> int:
    return _ON_GPU if has_gpu() else 1


def _largest(module: ModuleType) -> tuple[int, ...]:
    """Return the shape of the largest tensor among the inputs, weights and outputs. Raises TaskError."""
    given, own = shapes_of(module)
    shapes = [*given, *([] if has_too_many(len(given), own) else own), *_returned(module)]
    return max(shapes, key=math.prod, default=())


def _call_s(module: ModuleType) -> float | None:
    """Return the processor seconds that a call of the model takes, on the GPU if there is one; None if the call
    raises."""
    import torch

    for device in (*([GPU] if has_gpu() else []), "cpu"):
        with suppress(Exception, SystemExit), torch.no_grad(), torch.device(device), freed():
            model = module.Model(*made_with(module))
            given = [each.to(device) if hasattr(each, "to") else each for each in module.get_inputs()]
            for _ in range(2 if device == GPU else 1):  # the first call on a GPU loads libraries
                began = time.process_time()
                returned = model(*given)
                next(tensors_in(returned)).flatten()[:1].cpu()  # waits for the result
            return time.process_time() - began
    return None


def _returned(module: ModuleType) -> Sequence[tuple[int, ...]]:
    """Return the shapes of the tensors that a model returns, found without values; none if the model needs values."""
    import torch

    with suppress(Exception, SystemExit), torch.device("meta"):
        found = module.Model(*made_with(module))(*module.get_inputs())
        return [tuple(each.shape) for each in (found if isinstance(found, (tuple, list)) else [found])]
    return []


def shapes_of(module: ModuleType) -> tuple[Sequence[tuple[int, ...]], Sequence[tuple[int, ...]]]:
    """Return the shapes of a model's inputs, and of its weights. No tensor gets values for that, unless the model
    itself reads a number out of one. Raises TaskError."""
    import torch

    def made(device: str) -> tuple[Sequence[tuple[int, ...]], Sequence[tuple[int, ...]]]:
        with torch.device(device):
            given = [tuple(each.shape) for each in module.get_inputs() if hasattr(each, "shape")]
            return given, [tuple(each.shape) for each in module.Model(*made_with(module)).state_dict().values()]

    try:
        with suppress(RuntimeError, NotImplementedError):
            return made("meta")
        return made("cpu")
    except (Exception, SystemExit) as error:  # whatever the module raises
        raise TaskError(f"how large they are is not known: {type(error).__name__}: {error}") from error


def drawn_of(module: ModuleType, own: Module, seed: int) -> Mapping[str, Any]:
    """Return the inputs and weights of a seed as tensors. A weight whose elements are all equal, such as the ones of a
    norm, would not show whether it is used, so it is changed a little, unless a solution keeps its own weights."""
    import torch

    torch.manual_seed(SEED if own.one_seed else seed)
    model = module.Model(*own.made_of)
    if own.one_seed:
        torch.manual_seed(seed)
    given = dict(zip(own.inputs, module.get_inputs(), strict=False))
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    found = {name: each for name, each in given.items() if name not in own.constants}
    for name, called in own.weights.items():
        each = state[called].detach()
        is_alike = not own.one_seed and each.numel() > 0 and bool((each == each.flatten()[0]).all())
        found[name] = each + (torch.rand_like(each) - 0.5) / 2 if is_alike else each
    return {name: each.detach() for name, each in found.items()}


def array_of(tensor: Any) -> NDArray[Any]:
    """Return the tensor as an array; narrow floats become float32, since NumPy lacks bfloat16."""
    is_narrow = tensor.is_floating_point() and tensor.element_size() < SINGLE.itemsize
    found: NDArray[Any] = (tensor.float() if is_narrow else tensor).numpy()
    return found.copy(order="C") if not found.flags.c_contiguous else found


def own_shapes(
    asked: Asked, problem: Statement, solutions: Solutions, seed: int, screen: Console, file: str = _FILE,
    stop: Interruption | None = None,
) -> Mapping[str, OwnShapes]:  # fmt: skip
    """Return the results of solutions at the shapes that come with a problem, if any do, by kernel. Their callers are
    in files whose names begin with `file`, in the same folder, which the sandbox shows. Cases end when `stop` is
    wanted."""
    if problem.module is None or not solutions:
        return {}
    try:
        left = _SECONDS if stop is None or math.isinf(stop.left) else stop.left
        own = own_statement(asked.against, one_seed=file == _ONE_SEED, seconds=left)
        replay = replay_of(asked, own, {name: (words, beside(each, file)) for name, (words, each) in solutions.items()})
        case, outputs, seconds = replay.measured(seed)
        assert own.module is not None
        shapes = {name: each.shape for name, each in case.arrays.items() if name in own.module.inputs}
        cases = min(CASES, int(left / seconds), max(_MOST_OF_ALL * _times() // case.elements, 1))
        if any(np.prod(shape) > _MOST_ELEMENTS * _times() for shape, _ in outputs.values()) or not cases:
            raise TaskError(f"they are {shapes_text(shapes)}, of which a case takes too long: {seconds:.0f} s")
        found, _ = replay.run(cases, seed, (), screen, stop=stop)
    except (UsageError, UnreadableError) as error:
        reason = printable(str(error))
        return dict.fromkeys(solutions, OwnShapes({}, "", "did not run", 0, 0, (), reason))
    return {
        name: OwnShapes(
            shapes, own.changed, each.verdict, each.judged, each.failing, each.failures, each.reason, each.bugs
        )
        for name, each in found.items()
    }


def with_causes(
    asked: Asked, problem: Statement, solutions: Solutions, rulings: Sequence[SolutionRuling], seed: int,
    screen: Console,
) -> tuple[SolutionRuling, ...]:  # fmt: skip
    """Return the rulings. For solutions that are wrong at the task's own shapes, add the result there with the weights
    of their construction; and in the reference's mode, if one of the two sets a mode."""
    if (module := problem.module) is None:
        return tuple(rulings)
    wrong = {
        kernel: solutions[kernel] for kernel, each in zip(solutions, rulings, strict=True)
        if solutions[kernel][1].is_module
        and (each if problem.own or each.own_shapes is None else each.own_shapes).verdict == "wrong"
    }  # fmt: skip
    by_weights = wrong if module.weights else {}
    seeded = own_shapes(asked, problem, by_weights, seed, screen, _ONE_SEED)
    text, end = model_text(Path(asked.against.partition(":")[0])), _KEEPS_MODE.format(training=module.mode.training)
    moded = {
        kernel: (words, replace(each, files={**each.files, each.file: each.files[each.file] + end}))
        for kernel, (words, each) in wrong.items()
        if module.mode.to_set is None and any(map(_CALLS_MODE.search, (text, *each.files.values())))
    }
    kept = own_shapes(asked, problem, moded, seed, screen, _KEPT_MODE)
    return tuple(
        replace(each, one_seed=seeded.get(name), kept_mode=kept.get(name))
        for name, each in zip(solutions, rulings, strict=True)
    )


def in_other_mode(
    asked: Asked, problem: Statement, solutions: Solutions, seed: int, screen: Console
) -> Mapping[str, SolutionRuling]:
    """Return the ruling on each kernel in the mode (training or evaluation) in which the module is not judged first, by
    a replay; none if the reference returns the same in both modes."""
    other = problem.in_other_mode
    if other is None:
        return {}
    files = {name: (words, beside(each, _OTHER_MODE)) for name, (words, each) in solutions.items()}
    try:
        replay = replay_of(asked, other, files)
        return replay.run(min(_IN_OTHER_MODE, replay.affordable(seed)), seed, (), screen)[0]
    except (UsageError, UnreadableError) as error:
        reason = printable(str(error))
        return {name: SolutionRuling(words, "did not run", 0, 0, {}, (), reason) for name, (words, _) in files.items()}


def with_mode(ruling: SolutionRuling, problem: Statement, other: SolutionRuling | None) -> SolutionRuling:
    """Return the ruling with `other`, that of the other mode (training or evaluation). If the reference is random in
    its own mode, "right" becomes "undecided"."""
    if problem.module is None or not problem.module.mode.random or ruling.verdict != "right":
        return replace(ruling, other_mode=other)
    return replace(ruling, verdict="undecided", reason=f"right {problem.module.mode.text}; {_RANDOM}")


def with_own(ruling: SolutionRuling, own: OwnShapes | None, *, counts: bool = True) -> SolutionRuling:
    """Return the ruling with `own`, that of the shapes which come with the problem. A wrong `own` makes it wrong; a
    right one decides if nothing else was judged, provided that it `counts`."""
    if own is None or not (own.judged or ruling.judged):  # the solution did not run, as the ruling says
        return ruling
    if counts and own.verdict == "right" and ruling.verdict == "undecided" and not ruling.judged:
        return by_own(replace(ruling, own_shapes=own), ruling.reason)
    if own.verdict != "wrong" or ruling.verdict == "wrong":
        return replace(ruling, own_shapes=own)
    said = "".join(f": {each['said']}" for each in own.failures[:1] if not ruling.judged)  # else reported elsewhere
    reason = f"it fails at the shapes that come with the task{said}"
    bugs = (*ruling.bugs, *(replace(each, failure=None) for each in own.bugs))
    return replace(ruling, own_shapes=own, verdict="wrong", reason=reason, bugs=bugs)


def beside(solution: Solution, before: str) -> Solution:
    """Return the solution in another file of the same folder, for another caller than that of a search, whose file
    stays."""
    file = f"{before}{solution.file}"
    others = {name: text for name, text in solution.files.items() if name != solution.file}
    return replace(solution, file=file, files={**others, file: solution.files[solution.file]})


def drawn(pack: str | Path, recipe: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Return the inputs of a case that was drawn, by name, as contiguous arrays. `recipe` is what the `inputs` of a bug
    in a ruling have. `pack` is the folder that the ruling names, or for a replay the file of the reference, which is
    read for inputs that come with a `Model` alone."""
    if "key" in recipe:
        replayed = msgspec.convert(recipe, ReplayRecipe)
        own = None if replayed.tensors else own_statement(str(pack)).own
        return given(own(replayed.key) if own is not None else replayed.arrays(), replayed.dtype)
    load(Path(pack))
    inputs = realise(msgspec.convert(recipe, Draw)).inputs
    return {name: from_bits(each.bits, each.dtype, each.layout.shape).copy() for name, each in inputs.items()}
