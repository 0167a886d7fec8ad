"""The mode in which a module is judged: that in which it is constructed, as nobody sets another one, and the other one
where that makes a difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fuzz.references.dims import first_of


@dataclass(frozen=True)
class Mode:
    """How a module is called."""

    training: bool = False
    is_set: bool = False
    """Whether it is set after construction."""
    random: bool = False
    """Whether that is so as the module draws random numbers in the mode in which it is constructed."""
    changed: tuple[str, ...] = ()
    """The buffers that a call changes: each call begins with what is in them after construction, or what is drawn."""

    @property
    def text(self) -> str:
        """The mode in words."""
        return f"in {'training mode' if self.training else 'eval()'}{'' if self.is_set else ', as constructed'}"

    @property
    def to_set(self) -> bool | None:
        """What `train` is called with; None where it is not called."""
        return self.training if self.is_set else None

    @property
    def remarks(self) -> Sequence[str]:
        """What nobody judges."""
        random = "not judged in training mode, as constructed: Model draws random numbers there" if self.random else ""
        left = f"not compared: what a call leaves in {first_of(self.changed)}" if self.changed else ""
        return [*filter(None, (random, left))]


AS_CONSTRUCTED = Mode()


def modes_of(model: Any, given: Sequence[Any]) -> tuple[Mode, Mode | None]:
    """Return the mode in which a module is judged by such inputs, and the other one where it returns something else
    there. Raises what the module raises."""
    mode = Mode(model.training)
    outputs, changed = _called(model, given, mode, 0)
    other = Mode(not mode.training, is_set=True)
    if mode.training and not _alike(outputs, _called(model, given, mode, 1)[0]):
        return replace(other, random=True, changed=_called(model, given, other, 0)[1]), None
    try:
        others, changed_there = _called(model, given, other, 0)
    except Exception:  # whatever it raises
        return replace(mode, changed=changed), None
    same = _alike(outputs, others)
    return replace(mode, changed=changed), None if same else replace(other, changed=changed_there)


def _called(model: Any, given: Sequence[Any], mode: Mode, seed: int) -> tuple[Sequence[Any], tuple[str, ...]]:
    """What a module returns, and the buffers that it changes. It stays as it is."""
    import torch
    from torch.func import functional_call
    from torch.utils import _pytree

    own, was = dict(model.named_buffers()), [(each, each.training) for each in model.modules()]
    state = {name: each.clone() for name, each in own.items()}
    torch.manual_seed(seed)
    try:
        if mode.is_set:
            model.train(mode.training)
        copies = tuple(each.clone() if torch.is_tensor(each) else each for each in given)  # it may write to them
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
