"""What intercepts torch's own operations while it is entered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Handler = Callable[[Any, Any, Any], Any]
"""What becomes of an operation, its arguments and its keywords: it returns what that would."""


def intercepted(handler: Handler) -> Any:
    """Return a context in which `handler` is called for each operation. What it calls itself is not intercepted, unless
    it enters the context again."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Interception(TorchDispatchMode):  # type: ignore[misc]
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False  # else torch imports its compiler, which takes seconds, only to be told that there is none

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return handler(function, args, kwargs or {})

    return Interception()


def tensors_in(value: Any) -> Iterator[Any]:
    """Return the tensors in arguments, or in what is returned."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        yield from tensors_in([*value.values()])
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors_in(each)
