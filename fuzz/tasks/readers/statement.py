"""A statement: the function that says what solutions should compute, and what is stated about its tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fuzz.references.dims import first_of
from fuzz.references.examples import DRAWN
from fuzz.references.parameters import defaults_of
from fuzz.references.replay.cases import Own
from fuzz.tasks.readers.source import TaskError
from oracles.operand import MOST

SEED = 0
"""The seed with which modules are constructed."""
MODULE, KERNEL = "ModelNew", "kernel_function"
"""The names of a solution of a `Model`: a class or a function."""

_OUTPUTS = 8
"""The number of outputs that a case must leave room for; without room, a module's weights are no inputs of it."""
_MOST_OF_WEIGHTS = 1 << 22
"""A module with a larger weight keeps the weights of its construction, since each case would hold others."""
_WEIGHTS = (
    "no weights but those of one seed, from which both modules are constructed, as KernelBench does: a case has no "
    f"more than {MOST} tensors, nor a weight of more than {_MOST_OF_WEIGHTS:,} elements"
)


@dataclass(frozen=True)
class Statement:
    """A function that says what a solution should compute, and what its format states about the function's tensors."""

    name: str
    reference: Callable[..., Any]
    """A function that takes tensors by name."""
    shapes: Mapping[str, str] | None = None
    """The dimensions of each tensor, if they are stated or follow from examples."""
    dtypes: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, int] = field(default_factory=dict)
    """The extents that cannot vary, by dimension."""
    module: Module | None = None
    data: DataStatement | None = None
    returns: Sequence[str] = ()
    """The dtypes of the outputs, if they are stated."""
    arguments: Sequence[str] = ()
    """Expressions for the arguments of a solution's call if it takes more than tensors; "{}" is the next tensor."""
    examples: tuple[Mapping[str, int], ...] = ()
    """The extents of dimensions in the inputs that come with the statement."""
    tier: int = 0
    """The size of the numbers that replace the statement's own: 0 for the larger ones, 1 for the smaller ones, LAST if
    these numbers are parts of the statement's own, or are unchanged."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """The stated values of arguments that are not tensors."""
    draw: Callable[[int], Mapping[str, Any]] | None = None
    """A function that draws the inputs that come with the statement; each seed gives others. The module's `buffers` are
    the same each time."""
    buffers: Sequence[str] = ()
    """The names of the module's buffers with a property that is kept, such as a causal mask."""
    own: Own | None = None
    """A function that draws the inputs of the statement, if only these inputs are judged."""
    changed: str = ""
    """What was made smaller in the inputs that come with the statement, to save time."""
    kept: str = ""
    """The extents that do not vary, and why; "" if only the extents of weights do not."""

    @property
    def least_elements(self) -> int:
        """The number of elements that the largest stated tensor has in each case: all, where extents vary, are 1."""
        tensors = [dims.lower().split() for dims in (self.shapes or {}).values()]
        return max((math.prod(self.fixed.get(dim, 1) for dim in each) for each in tensors), default=0)

    def takes(self, sizes: Mapping[str, int]) -> bool:
        """Return whether the reference takes tensors of zeros with these extents."""
        import torch

        tensors = {
            name: torch.zeros([sizes[each] for each in dims.split()], dtype=getattr(torch, self.dtypes[name]))
            for name, dims in (self.shapes or {}).items()
        }  # fmt: skip
        try:
            with torch.no_grad():
                self.reference(**tensors)
        except Exception:  # whatever the reference raises
            return False
        return True

    @property
    def in_other_mode(self) -> Statement | None:
        """The same statement in the module's other mode, if the module returns something else there; else None."""
        own = self.module
        if own is None or own.other is None or own.elsewhere is None:
            return None
        return replace(self, reference=own.elsewhere, module=replace(own, mode=own.other, other=None))

    @property
    def modes(self) -> tuple[str, str]:
        """The mode in which a module is judged, and the other one if the module returns something else there; or ''."""
        own = self.module
        return ("", "") if own is None else (own.mode.text, own.other.text if own.other is not None else "")

    @property
    def never(self) -> tuple[str, ...]:
        """The modes in which a module is never called."""
        if self.module is None or self.module.other is not None or self.module.mode.alike:
            return ()
        return ("evaluation mode" if self.module.mode.training else "training mode",)

    @property
    def remarks(self) -> Sequence[str]:
        """The lines about what is not judged, and why."""
        own = self.module
        if own is None:
            return [self.kept] if self.kept else []
        tied = ", ".join(f"any {dim} but {size}" for dim, size in own.tied.items())
        tied = f"not exercised, as get_inputs() and get_init_inputs() have it so: {tied}" if tied else ""
        return [*filter(None, (self.kept, _WEIGHTS if own.one_seed else "", tied)), *own.mode.remarks]

    @property
    def source(self) -> str:
        """The source of examples, in words."""
        return f"{DRAWN} and the buffers of Model" if self.buffers else DRAWN

    @property
    def others(self) -> Mapping[str, Any]:
        """The values of arguments that are not tensors or that have a default, by name."""
        return {**defaults_of(self.reference), **self.numbers}


@dataclass(frozen=True)
class DataStatement:
    """The form of `data`, the single parameter of a solution, as GPU MODE states it."""

    words: str
    """The value of `data` as Python code in the names of the tensors, such as "(x, weight,)"; "{0}" is the first
    output."""
    files: Mapping[str, str]
    """The texts of modules that come with the statement for solutions to import, by file name."""
    has_rooms: bool = False
    """Whether `data` has room for the outputs, which a solution may write to, or return others."""


@dataclass(frozen=True)
class Mode:
    """The mode of a module: training or evaluation, set after construction or as constructed."""

    training: bool = False
    is_set: bool = False
    """Whether the mode is set after construction."""
    random: bool = False
    """Whether the mode is set because the module draws random numbers in the mode that it is constructed in."""
    changed: tuple[str, ...] = ()
    """The buffers that a call changes. Each call begins with their content after construction, or with drawn values."""

    alike: bool = False
    """Whether the module returns the same in its other mode."""

    @property
    def text(self) -> str:
        """The mode in words."""
        return f"in {'training mode' if self.training else 'eval()'}{'' if self.is_set else ', as constructed'}"

    @property
    def to_set(self) -> bool | None:
        """The argument of `train`, or None if it is not called."""
        return self.training if self.is_set else None

    @property
    def remarks(self) -> Sequence[str]:
        """The lines about what is not judged because of the mode."""
        random = "not judged in training mode, as constructed: Model draws random numbers there" if self.random else ""
        left = f"not compared: what a call leaves in {first_of(self.changed)}" if self.changed else ""
        return [*filter(None, (random, left))]


AS_CONSTRUCTED = Mode()


@dataclass(frozen=True)
class Module:
    """The construction and the call of a module of torch, as the statement states them."""

    made_of: tuple[Any, ...]
    """The arguments of the module's construction."""
    inputs: tuple[str, ...]
    """The names of the arguments that the module is called with, in order."""
    weights: Mapping[str, str]
    """The names of the module's weights in its state, by their names in the op."""
    constants: Mapping[str, Any]
    """The arguments of a call that are not tensors, by name."""
    mode: Mode = AS_CONSTRUCTED
    other: Mode | None = None
    """The module's other mode (training or evaluation), if the reference returns something else there."""
    elsewhere: Callable[..., Any] | None = None
    """The reference in the mode `other`."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """The arguments of the module's construction, by name."""
    one_seed: bool = False
    """Whether a solution keeps the weights of its construction, which has the same seed as `Model`'s."""
    tied: Mapping[str, int] = field(default_factory=dict)
    """Extents of inputs that do not vary: those that are also arguments of the construction, such as a number of
    features, and those that are 1."""


class UnreadStatementError(TaskError):
    """Raised for a statement whose function has no formula, but may be replayed."""

    def __init__(self, message: str, statement: Statement) -> None:
        super().__init__(message)
        self.statement = statement


def has_too_many(inputs: int, weights: Sequence[tuple[int, ...]]) -> bool:
    """Return whether a case has no room for weights of these shapes besides its inputs."""
    return inputs + len(weights) + _OUTPUTS > MOST or max(map(math.prod, weights), default=0) > _MOST_OF_WEIGHTS


def modes_of(model: Any, given: Sequence[Any]) -> tuple[Mode, Mode | None]:
    """Return the mode, training or evaluation, in which a module is judged with such inputs, and the other mode if the
    module returns something else there. Raises what the module raises."""
    mode = Mode(model.training)
    outputs, changed = _called(model, given, mode, 0)
    other = Mode(not mode.training, is_set=True)
    if mode.training and not _alike(outputs, _called(model, given, mode, 1)[0]):
        return replace(other, random=True, changed=_called(model, given, other, 0)[1]), None
    try:
        others, changed_there = _called(model, given, other, 0)
    except Exception:  # whatever the module raises
        return replace(mode, changed=changed), None
    same = _alike(outputs, others)
    return replace(mode, changed=changed, alike=same), None if same else replace(other, changed=changed_there)


def _called(model: Any, given: Sequence[Any], mode: Mode, seed: int) -> tuple[Sequence[Any], tuple[str, ...]]:
    """Return a module's outputs, and the names of the buffers that the call would change; the module is unchanged."""
    import torch
    from torch.func import functional_call
    from torch.utils import _pytree

    own, was = dict(model.named_buffers()), [(each, each.training) for each in model.modules()]
    state = {name: each.clone() for name, each in own.items()}
    torch.manual_seed(seed)
    try:
        if mode.is_set:
            model.train(mode.training)
        copies = tuple(each.clone() if torch.is_tensor(each) else each for each in given)  # a module may write to them
        with torch.no_grad():
            found = functional_call(model, state, copies)
    finally:
        for each, training in was:
            each.training = training
    return _pytree.tree_leaves(found), tuple(name for name in own if not _alike([own[name]], [state[name]]))


def _alike(some: Sequence[Any], others: Sequence[Any]) -> bool:
    import torch

    pairs = [*zip(some, others, strict=False)]
    return len(some) == len(others) and all(
        torch.allclose(a, b, 0.0, 0.0, equal_nan=True) if torch.is_tensor(a) and a.shape == b.shape else a is b
        for a, b in pairs
    )
