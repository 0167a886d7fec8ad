"""What a function does in a check with what nobody declared of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fuzz.contracts.accepts import DTYPES, Accepts, accepts
from fuzz.core.adapters.python_kernel import Device
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import Target
from fuzz.core.base.capability import Capabilities
from fuzz.core.base.dispatch import SMALL
from fuzz.core.transport.python.attest import interpreted_faults, is_interpreted
from fuzz.tasks.check.function import Arrays, OwnProcess, declared

if TYPE_CHECKING:
    from fuzz.tasks.check.reference import Read

_UNTYPED = ("ctypes", "cffi", "data_ptr")
"""What a function calls C with that does not know of dtypes: shorter elements would not be as long as it believes."""


def tried(
    kernel: Callable[..., Any], found: Read, able: Capabilities | None, returns: Sequence[str], arrays: Arrays,
    device: Device,
) -> Accepts | None:  # fmt: skip
    """Return what a function does with strides, dtypes and ranks that it does not declare; None where it declares some,
    or is wrong without them."""
    from fuzz.tasks.check.reference import contract_of

    declaration, function = declared(
        kernel, found.op, found.contract, found.capabilities(able), (), tuple(returns), arrays, device, "",
        found.called(kernel), found.constants(kernel),
    )  # fmt: skip
    targets = expand([declaration])
    if len(targets) != 1 or targets[0].unavailable() is not None:
        return None

    def here(target: Target) -> nullcontext[OwnProcess]:
        return nullcontext(OwnProcess(target, function, found.takes))

    faults = {dtype: why for dtype, why in _interpreter_faults(kernel).items() if dtype not in declaration.able.dtypes}
    dtypes = [dtype for dtype in (DTYPES[:2] if _is_untyped(kernel) else DTYPES) if dtype not in faults]
    told = accepts(
        here, targets[0], lambda dtype: contract_of(found.derived, arrays, (dtype,), strict=False), dtypes=dtypes
    )  # fmt: skip
    return replace(told, untried=faults) if told is not None and told.usual == "right" else told


def _interpreter_faults(kernel: Callable[..., Any]) -> Mapping[str, str]:
    """Why dtypes are not tried that Triton's interpreter gets wrong, where it runs functions beside the kernel."""
    return interpreted_faults(triton) if (triton := _of_triton(kernel)) else {}


def _of_triton(kernel: Callable[..., Any]) -> Sequence[Any]:
    """The functions of Triton beside the kernel."""
    near = [*getattr(inspect.unwrap(kernel), "__globals__", {}).values()]
    return [each for each in near if type(each).__module__.startswith("triton.")]


def spared(target: Target, kernel: Callable[..., Any]) -> Target:
    """Return the target, with small cases alone where Triton's interpreter runs functions beside the kernel: each of
    its programs takes milliseconds."""
    triton = _of_triton(kernel)
    return replace(target, size_limit=SMALL, slow=True) if triton and is_interpreted(triton) else target


def _is_untyped(kernel: Callable[..., Any]) -> bool:
    own = inspect.unwrap(kernel)
    modules = (each.__name__ for each in getattr(own, "__globals__", {}).values() if isinstance(each, ModuleType))
    names = getattr(getattr(own, "__code__", None), "co_names", ())
    return any(each.partition(".")[0] in _UNTYPED for each in (*modules, *names))
