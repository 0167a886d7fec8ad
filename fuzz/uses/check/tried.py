"""What a function does in a check with what nobody declared of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from types import ModuleType
from typing import Any

from fuzz.adapters.python_kernel import Device
from fuzz.adapters.registry import expand
from fuzz.adapters.target import Target
from fuzz.base.capability import Capabilities
from fuzz.uses.check.function import Arrays, OwnProcess, declared
from fuzz.uses.check.reference import Read, contract_of
from fuzz.uses.measure.beside import DTYPES, Accepts, accepts

_UNTYPED = ("ctypes", "cffi", "data_ptr")
"""What a function calls C with that does not know of dtypes: shorter elements would not be as long as it believes."""


def tried(
    kernel: Callable[..., Any], found: Read, able: Capabilities | None, returns: Sequence[str], arrays: Arrays,
    device: Device,
) -> Accepts | None:  # fmt: skip
    """Return what a function does with strides, dtypes and ranks that it does not declare; None where it declares some,
    or is wrong without them."""
    declaration, function = declared(
        kernel, found.op, found.contract, found.capabilities(able), (), tuple(returns), arrays, device, "",
        found.called(kernel), found.constants(kernel),
    )  # fmt: skip
    targets = expand([declaration])
    if len(targets) != 1 or targets[0].unavailable() is not None:
        return None

    def here(target: Target) -> nullcontext[OwnProcess]:
        return nullcontext(OwnProcess(target, function, found.takes))

    return accepts(
        here, targets[0], lambda dtype: contract_of(found.derived, arrays, (dtype,), strict=False),
        dtypes=DTYPES[:2] if _is_untyped(kernel) else DTYPES,
    )  # fmt: skip


def _is_untyped(kernel: Callable[..., Any]) -> bool:
    own = inspect.unwrap(kernel)
    modules = (each.__name__ for each in getattr(own, "__globals__", {}).values() if isinstance(each, ModuleType))
    names = getattr(getattr(own, "__code__", None), "co_names", ())
    return any(each.partition(".")[0] in _UNTYPED for each in (*modules, *names))
