"""The entries of torch's OpInfo, the list of operations that torch's own tests go through, with inputs for each."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from fuzz.core.base.errors import UsageError
from fuzz.references.backward import backward
from fuzz.references.parameters import with_names
from fuzz.references.tracing import tensors_in
from oracles.dtypes import FORMATS

CPU = "cpu"
_SEED = 1
_MOST_ELEMENTS = 1 << 12
"""The most elements of the tensors of a sample, since larger ones take long and show nothing that small ones do not."""


def entries() -> Mapping[str, Any]:
    """Return the entries by name. Raises UsageError where a package that torch's tests need is missing."""
    try:
        with patch("torch.backends.disable_global_flags"):  # else no flag can be set any more in this process
            from torch.testing._internal.common_methods_invocations import op_db
    except ModuleNotFoundError as error:
        raise UsageError(f"torch's list of operations needs {error.name}: pip install {error.name}") from error

    return {each.formatted_name: each for each in op_db}


@dataclass(frozen=True)
class Sample:
    """A call of an entry's operation, as a function of the tensors among its arguments."""

    entry: Any
    number: int
    reference: Callable[..., Any]
    tensors: Mapping[str, Any]
    other: str
    """All arguments that are no tensors, as text."""
    device: str = CPU
    """Where the operation runs; the tensors are on the processor."""

    @property
    def kind(self) -> str:
        """The shapes and all other arguments as text, without the dtype of floats."""
        shapes = [(each.is_floating_point() or str(each.dtype), *each.shape) for each in self.tensors.values()]
        return f"{shapes} {self.other}"

    def returned(self) -> Any:
        """Return what the operation returns, on the processor."""
        import torch
        from torch.utils._pytree import tree_map_only

        return tree_map_only(torch.Tensor, lambda each: each.to(CPU), self.run())

    def run(self) -> Any:
        """Return what the operation returns for copies of the tensors on the device."""
        return self.reference(**{name: each.to(self.device, copy=True) for name, each in self.tensors.items()})

    def gradient(self, returned: Any) -> Sample | None:
        """Return the gradient of the operation for a random gradient of its output; None if it has no such gradient, or
        several outputs."""
        import torch

        differs = self.entry.supports_autograd and isinstance(returned, torch.Tensor) and has_floats([returned])
        if not differs or not has_floats(self.tensors.values()):
            return None
        gradients = backward(self.reference)
        [name] = {*inspect.signature(gradients).parameters} - {*self.tensors}
        dy = torch.randn(returned.shape, generator=torch.Generator().manual_seed(_SEED)).to(returned.dtype)
        return replace(self, reference=gradients, tensors={**self.tensors, name: dy})


def samples_of(entry: Any, dtype: str, count: int, device: str = CPU) -> Sequence[Sample]:
    """Return some of the entry's own samples in this dtype: the first, the last, and others at equal distances. They
    are the same for each device. Raises what the entry raises."""
    import torch

    torch.manual_seed(_SEED)
    found = [*_small(entry, entry.sample_inputs(CPU, getattr(torch, FORMATS[dtype].spelling)))]
    places = sorted({round(at * (len(found) - 1) / max(count - 1, 1)) for at in range(count)}) if found else []
    return [replace(found[at], device=device) for at in places]


def has_floats(values: Iterable[Any]) -> bool:
    """Whether a tensor of real floats is among these values."""
    return any(each.is_floating_point() for each in tensors_in([*values]))


def _small(entry: Any, inputs: Iterable[Any]) -> Iterator[Sample]:
    import torch
    from torch.utils._pytree import tree_flatten

    for number, each in enumerate(inputs):
        leaves, shape = tree_flatten(([each.input, *each.args], each.kwargs))
        which = [at for at, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        tensors = {f"x{at}": leaves[place].detach().resolve_conj().resolve_neg() for at, place in enumerate(which)}
        sizes = [one.numel() for one in tensors.values()]
        if all(sizes) and sum(sizes) <= _MOST_ELEMENTS:
            others = [None if at in which else leaf for at, leaf in enumerate(leaves)]
            reference = _reference(entry, dict(zip(tensors, which, strict=True)), others, shape)
            yield Sample(entry, number, reference, tensors, f"{others} {shape}")


def _reference(entry: Any, places: Mapping[str, int], others: Sequence[Any], shape: Any) -> Callable[..., Any]:
    """Return an operation as a function of the tensors alone, which take their `places` among its other arguments."""
    from torch.utils._pytree import tree_unflatten

    def called(**given: Any) -> Any:
        leaves = [*others]
        for name, each in given.items():
            leaves[places[name]] = each
        args, kwargs = tree_unflatten(leaves, shape)
        return entry.op(*args, **kwargs)

    return with_names(called, [*places], entry.formatted_name)
