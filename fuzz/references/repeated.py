"""Several calls of a function with a state, such as a step of an optimiser, as one function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any


def repeated(
    step: Callable[..., Any], state: Sequence[str] | Mapping[str, int | str], calls: int = 3, each: Sequence[str] = ()
) -> Callable[..., Any]:
    """Return a function that makes `calls` calls of `step`, a reference or a kernel, and returns the outputs of each
    call that are no state, and then the state after the last one.

    `state` names the arguments that `step` writes in place; or says, for each argument, which output is its next value,
    by number or name, such as {"m": 1, "v": "v"}. The arguments in `each` have one more dimension, the calls: a call
    gets its own part. All others are the same in each call."""
    signature = inspect.signature(step)

    @wraps(step)
    def called(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        given, found = dict(bound.arguments), list[Any]()
        held = {name: given[name] for name in state}
        if not isinstance(state, Mapping):
            held = {name: each.clone() if hasattr(each, "clone") else each.copy() for name, each in held.items()}
        for at in range(calls):
            bound.arguments.update({**held, **{name: given[name][at] for name in each}})
            outputs = _named(step(*bound.args, **bound.kwargs))
            if isinstance(state, Mapping):
                held = {name: outputs.pop(key) for name, key in state.items()}
            found += outputs.values()
        found += held.values()
        return found[0] if len(found) == 1 else tuple(found)

    return called


def _named(returned: Any) -> dict[int | str, Any]:
    """Return the outputs of a call by number, or by name if it returns them so."""
    if returned is None:
        return {}
    if isinstance(returned, Mapping):
        return dict(returned)
    return dict(enumerate(returned if isinstance(returned, (tuple, list)) else [returned]))
